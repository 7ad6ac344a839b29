import json
import re
from pathlib import Path

from factories import HELPS, STRONG, cell_parts
from hypothesis import given
from hypothesis import strategies as st

from mechexp.tracking import describe, notes
from mechexp.tracking.validate import METRIC_NAMES, METRICS

KEY = re.compile(r"[A-Za-z0-9_\-./]+\Z")
CELL = cell_parts("pythia", "ioi", {"prev_token": STRONG, "bos": HELPS})["result"]


def test_runs_are_named_as_people_say_them() -> None:
    assert describe.cell_text(CELL, Path("/x"), "id").name == "pythia · ioi"
    assert describe.screen_text(CELL, "bos", "id").name == "pythia · ioi · bos"


def test_a_screen_run_carries_what_was_promised() -> None:
    text = describe.screen_text(CELL, "prev_token", "id")
    assert set(text.metrics) == {n.format(m=m) for m in METRICS for n in METRIC_NAMES}
    assert dict(text.params) == {
        "model": "pythia", "task": "ioi", "screen": "prev_token", "k": "0", "control": "matched_random",
        "ablation": "mean", "n_heads": "4", "seed": "0", "dtype": "float32", "n_prompts": "16",
    }  # fmt: skip
    for tag in (
        "taxonomy",
        "taxonomy_top1",
        "taxonomy_logit_diff",
        "flags",
        "heads",
        "weights_hash",
        "prompts_hash",
    ):
        assert tag in text.tags
    assert text.tags["taxonomy"] == "primary"
    assert re.fullmatch(r"(L\d+H\d+,){3}L\d+H\d+", text.tags["heads"])
    assert describe.screen_text(CELL, "bos", "id").tags["flags"] == "bos_confound"
    assert text.tags["mechexp.level"] == "screen"


def test_swept_keys_become_params_with_names_that_mlflow_takes() -> None:
    swept = {"screen.k": "5", "screen.heads=[L0H1]": "x", "task": "ioi"}
    params = describe.screen_text({**CELL, "swept": swept}, "bos", "id").params
    assert params["screen.k"] == "5"
    assert params["screen.heads__L0H1_"] == "x"
    assert all(KEY.match(k) for k in params)


@given(st.text(max_size=300))
def test_every_key_is_one_that_mlflow_takes(text: str) -> None:
    assert KEY.match(describe.key(text))
    assert len(describe.key(text)) <= 250


def test_nothing_is_longer_than_mlflow_keeps() -> None:
    long = "x" * 20_000
    result = json.loads(json.dumps(CELL))
    result["screens"]["bos"] |= {"evidence": {"a": long}, "rules": [long], "notes": [long]}
    result |= {"swept": {"screen.heads": long}, "notes": [long], "reason": long}
    for text in (describe.cell_text(result, Path("/x"), "id"), describe.screen_text(result, "bos", "id")):
        assert max(map(len, text.tags.values())) <= 8000
        assert max(map(len, text.params.values())) <= 6000
        for name, value in text.tags.items():
            if name.startswith(describe.ROW) or name == describe.EVIDENCE:
                json.loads(value)  # whole, or not there


def test_unknown_numbers_are_left_out() -> None:
    result = json.loads(json.dumps(CELL))
    result["screens"]["bos"]["metrics"]["z_top1"] = None
    metrics = describe.screen_text(result, "bos", "id").metrics
    assert "z_top1" not in metrics
    assert "z_logit_diff" in metrics


def test_notes_tell_the_label_the_numbers_and_why() -> None:
    note = notes.screen_note(CELL, "prev_token")
    assert "prev_token: primary" in note
    assert "Δ logit difference **-3.10** [-3.41 … -2.79]" in note
    assert all(rule in note for rule in CELL["screens"]["prev_token"]["rules"])
    cell = notes.cell_note(cell_parts(competent=False)["result"])
    assert "Not evaluated" in cell
    assert "top1 0.14 < 0.2" in cell


def test_credentials_are_masked_in_params_and_notes() -> None:
    uri = "http://bob:s3cret@host"
    text = describe.cell_text({**CELL, "swept": {"tracking.uri": uri}, "notes": [uri]}, Path("/x"), "id")
    assert "s3cret" not in f"{text.params}{text.tags}"


def test_thresholds_are_kept_only_where_they_are_not_the_default() -> None:
    assert describe.changed_thresholds(CELL["taxonomy"]) == {}
    assert describe.changed_thresholds({**CELL["taxonomy"], "alpha": 0.01}) == {"alpha": 0.01}
