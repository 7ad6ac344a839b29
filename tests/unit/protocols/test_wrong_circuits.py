"""The published grid's own fault, heads of one model measured on another: refused before any work."""

import json
from pathlib import Path

import pytest
from test_diagnostics import config, prompts

from mechexp.config import ScreenConfig
from mechexp.errors import UserError
from mechexp.models.heads import Geometry, Head
from mechexp.progress import JobProgress
from mechexp.protocols.screen_ablate import screen_ablate
from mechexp.screens.circuit import Circuit
from mechexp.screens.run import run_screens
from mechexp.screens.user import from_file, from_heads


def run(loaded, **screen):
    return screen_ablate(loaded, prompts(), config(screen=ScreenConfig(**screen)), JobProgress("test"))


def saved(loaded, folder: Path, **changes) -> str:
    """A circuit file of this model, with some of what it says changed."""
    circuit = Circuit(
        "induction",
        (Head(0, 1), Head(2, 3)),
        loaded.id,
        loaded.revision,
        loaded.weights_hash,
        loaded.geometry,
    )
    path = folder / "circuit.json"
    circuit.save(path)
    row = json.loads(path.read_text())
    row["model"] |= changes
    path.write_text(json.dumps(row))
    return str(path)


def test_the_models_own_circuit_is_measured(micro_model, tmp_path: Path) -> None:
    loaded = micro_model("llama")
    cell = run(loaded, name="file", file=saved(loaded, tmp_path), sequences=8, length=24)
    row = cell.result["screens"]["induction"]
    assert row["heads"] == [[0, 1], [2, 3]] and row["metrics"]["delta_logit_diff"] != 0


def test_another_models_circuit_is_refused(micro_model, tmp_path: Path) -> None:
    path = saved(micro_model("olmoe"), tmp_path)
    with pytest.raises(UserError, match="another model: micro/olmoe, not micro/llama"):
        run(micro_model("llama"), name="file", file=path, sequences=8, length=24)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"id": "someone/else"}, "model"),
        ({"revision": "step1000"}, "revision"),
        ({"n_heads": 16}, "head geometry"),
        ({"n_layers": 16}, "head geometry"),
        ({"head_dim": 128}, "head geometry"),
        ({"weights_hash": "00" * 32}, "weights"),
    ],
)
def test_any_other_identity_is_refused(micro_model, tmp_path: Path, changes: dict, what: str) -> None:
    loaded = micro_model("llama")
    with pytest.raises(UserError, match=f"another {what}"):
        from_file(loaded, saved(loaded, tmp_path, **changes))


def test_a_file_whose_heads_its_own_model_lacks_is_refused(micro_model, tmp_path: Path) -> None:
    """OLMoE's list on a model of 8 heads names heads that do not exist; so does a file that claims them."""
    loaded = micro_model("llama")
    path = Path(saved(loaded, tmp_path))
    row = json.loads(path.read_text())
    path.write_text(json.dumps({**row, "heads": ["L2H15"]}))
    with pytest.raises(UserError, match="L2H15"):
        from_file(loaded, str(path))


@pytest.mark.parametrize("heads", [["L0H4"], ["L3H0"], ["L0H1", "L15H15"]])
def test_heads_that_do_not_exist_are_refused(micro_model, heads: list[str]) -> None:
    with pytest.raises(UserError, match=rf"{heads[-1]}") as refused:
        run(micro_model("llama"), name="heads", heads=heads)
    assert "3 layers" in str(refused.value) and "4 heads" in str(refused.value)


def test_published_pythia_lists_do_not_fit_pythia() -> None:
    """Its published prev_token and induction lists are OLMoE's: heads 8 … 15 of a model that has 0 … 7."""
    data = json.loads((Path(__file__).parents[2] / "golden" / "data" / "xu2026.json").read_text())
    olmoe = data["circuits"]["prev_token"]["olmoe"]
    pythia = Geometry(16, 8, 256)
    with pytest.raises(UserError):
        Circuit("prev_token", from_text(olmoe), "EleutherAI/pythia-1b", "", "", pythia)


def from_text(texts: list[str]) -> tuple[Head, ...]:
    from mechexp.models.heads import parse_heads

    return parse_heads(texts)


@pytest.mark.parametrize(
    "options", [{"name": "heads", "heads": ["L0H4"]}, {"name": "file", "file": "/nowhere"}]
)
def test_nothing_is_measured_before_the_refusal(
    micro_model, monkeypatch: pytest.MonkeyPatch, options: dict
) -> None:
    import mechexp.screens.inputs as inputs

    def measured(*_args, **_kwargs):
        raise AssertionError("measured")

    monkeypatch.setattr(inputs, "read_last", measured)
    monkeypatch.setattr(inputs, "read_rows", measured)
    with pytest.raises(UserError):
        run_screens(micro_model("llama"), prompts(), ScreenConfig(**options), ())


def test_no_heads_at_all_is_told(micro_model) -> None:
    with pytest.raises(UserError, match="without heads"):
        from_heads(micro_model("llama"), [])
