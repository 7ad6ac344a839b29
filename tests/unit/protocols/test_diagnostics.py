"""Diagnostics of a cell on a micro model, against numbers computed by hand from the same conditions."""

import numpy as np
import pandas as pd
import pytest

from mechexp import engine
from mechexp.config import AblationConfig, ModelConfig, ProtocolConfig, ScreenConfig
from mechexp.controls.config import ControlConfig
from mechexp.engine.condition import Condition
from mechexp.findings import TaxonomyConfig, bootstrap_counts
from mechexp.models.heads import Head
from mechexp.progress import JobProgress
from mechexp.protocols.conditions import Measured, group_parts, single_parts
from mechexp.protocols.diagnostics import Diagnosis, diagnostic_parts, overlaps, spectral_recall
from mechexp.protocols.head_counts import head_count_parts, head_count_rows, ranking, role_of
from mechexp.protocols.screen_ablate import screen_ablate
from mechexp.schema import Config
from mechexp.screens import Screened
from mechexp.screens.circuit import Circuit
from mechexp.screens.evidence import direct_logit_attribution
from mechexp.tasks.prompts import PromptSet, TextPrompt

A, B, C, D = Head(0, 0), Head(1, 1), Head(2, 2), Head(0, 3)
ZERO = AblationConfig(name="zero", sensitivity=False)


def prompts(n: int = 12, length: int = 9) -> PromptSet:
    rng = np.random.default_rng(0)
    ids = tuple(tuple(int(i) for i in rng.integers(4, 150, size=length)) for _ in range(n))
    half = tuple("screen" if i % 2 else "test" for i in range(n))
    return PromptSet(
        "custom", tuple(TextPrompt(str(i), ("a",), ("b",)) for i in range(n)), ids,
        ({"end": length - 1},) * n, ((5,),) * n, ((6,),) * n, (None,) * n, half,
    )  # fmt: skip


def circuit(loaded, screen: str, heads: tuple[Head, ...]) -> Circuit:
    return Circuit(screen, heads, loaded.id, "", "", loaded.geometry)


@pytest.fixture(scope="module")
def diagnosed(micro_model):
    """Two circuits that share a head, one of whose heads counts as a sink; measured with zero ablation."""
    loaded, given = micro_model("llama"), prompts().part("test")
    circuits = (
        circuit(loaded, "one", (A, B, C)),
        circuit(loaded, "two", (C, D)),
        circuit(loaded, "none", ()),
    )
    heads = [(layer, head) for layer in range(3) for head in range(4)]
    table = pd.DataFrame(heads, columns=["layer", "head"])
    table["best_class"] = ["bos" if h == A else "none" for h in heads]
    table["spectral_top"] = [h in (A, D) for h in heads]
    screened = Screened(circuits, table, (), {"one": (B, C)})
    from mechexp.controls import MatchedSets, draw

    nulls: dict[str, MatchedSets] = {c.screen: draw(c, control="none") for c in circuits}
    parts = group_parts(circuits, nulls, ZERO, (), unions=True)
    parts += single_parts(circuits, loaded.geometry, ZERO, "picked")
    parts += diagnostic_parts(screened, ZERO, seed=0)
    clean, *outcomes = engine.measure(loaded, given, [Condition(), *(p.condition for p in parts)])
    measured = Measured(clean, tuple(zip(parts, outcomes, strict=True)))
    direct = direct_logit_attribution(loaded, given)
    diagnosis = Diagnosis(screened, measured, direct, bootstrap_counts(len(given), 200), ZERO, 0.95)

    def delta(*removed: Head, positions: str = "all") -> float:
        found = engine.measure(loaded, given, [Condition(removed, "zero", positions)])[0]
        return float(found.logit_diff.mean() - clean.logit_diff.mean())

    return screened, diagnosis, direct, delta


def test_bos_sets_are_measured_and_told_apart(diagnosed) -> None:
    screened, diagnosis, _, delta = diagnosed
    row = diagnosis.of_screen(screened.circuits[0])["bos"]
    assert row["heads"] == ["L0H0"] and row["share"] == pytest.approx(1 / 3)
    assert row["bos_filtered"]["heads"] == [[1, 1], [2, 2]]
    assert row["bos_filtered"]["delta_logit_diff"] == pytest.approx(delta(B, C), abs=1e-5)
    assert row["sink_only"]["heads"] == [[0, 0]]
    assert row["sink_only"]["delta_logit_diff"] == pytest.approx(delta(A), abs=1e-5)
    other = Head(*row["other_only"]["heads"][0])
    assert other.layer == 0 and other != A and row["other_only"]["n_heads"] == 1
    assert row["other_only"]["delta_logit_diff"] == pytest.approx(delta(other), abs=1e-5)
    assert "L0H0" in row["reading"]
    assert row["bos_filtered"]["delta_logit_diff_low"] <= row["bos_filtered"]["delta_logit_diff"]


def test_circuits_without_sinks_get_no_bos_sets(diagnosed) -> None:
    screened, diagnosis, _, _ = diagnosed
    assert set(diagnosis.of_screen(screened.circuits[1])["bos"]) == {"heads", "share"}
    assert diagnosis.of_screen(screened.circuits[2]) == {}


def test_additivity_and_upper_bound(diagnosed) -> None:
    screened, diagnosis, _, delta = diagnosed
    row = diagnosis.of_screen(screened.circuits[0])
    alone = delta(A) + delta(B) + delta(C)
    found = row["additivity"]["logit_diff"]
    assert found["singles"] == pytest.approx(alone, abs=1e-5)
    assert found["index"] == pytest.approx(delta(A, B, C) / alone, rel=1e-3)
    everything = [Head(layer, head) for layer in range(3) for head in range(4)]
    assert row["upper_bound"]["delta_logit_diff"] == pytest.approx(delta(*everything), abs=1e-5)
    share = row["upper_bound"]["share_logit_diff"]
    assert share == pytest.approx(delta(A, B, C) / delta(*everything), rel=1e-3)


def test_self_repair_is_end_position_total_less_direct(diagnosed) -> None:
    screened, diagnosis, direct, delta = diagnosed
    row = diagnosis.of_screen(screened.circuits[1])["self_repair"]
    written = sum(direct[:, h.layer, h.head].mean() for h in (C, D))
    total = delta(C, D, positions="end")
    assert row["direct"] == pytest.approx(-written)
    assert row["total"] == pytest.approx(total, abs=1e-5)
    assert row["repair"] == pytest.approx(total + written, abs=1e-5)
    assert row["total"] != pytest.approx(delta(C, D), abs=1e-4)  # not that of all positions


def test_union_and_overlap(diagnosed) -> None:
    _, diagnosis, _, delta = diagnosed
    cell = diagnosis.of_cell()
    assert cell["overlap"] == [{"a": "one", "b": "two", "shared": [[2, 2]], "jaccard": 0.25}]
    union = cell["union"]
    assert union["n_heads"] == 4
    assert union["delta_logit_diff"] == pytest.approx(delta(A, B, C, D), abs=1e-5)
    index = delta(A, B, C, D) / (delta(A, B, C) + delta(C, D))
    assert union["additivity_logit_diff"] == pytest.approx(index, rel=1e-3)


def test_same_heads_overlap_fully_and_count_once(micro_model) -> None:
    loaded = micro_model("llama")
    twins = [circuit(loaded, "x", (A, B)), circuit(loaded, "y", (B, A)), circuit(loaded, "z", (C,))]
    assert [(r["a"], r["b"], r["jaccard"]) for r in overlaps(twins)] == [("x", "y", 1.0)]


def test_single_heads_are_sorted_by_their_intervals(diagnosed) -> None:
    screened, diagnosis, _, delta = diagnosed
    roles = diagnosis.of_screen(screened.circuits[0])["singles"]
    assert sorted(h for names in roles.values() for h in names) == ["L0H0", "L1H1", "L2H2"]
    assert all(delta(Head(int(h[1]), int(h[3]))) < 0 for h in roles["supporters"])
    assert all(delta(Head(int(h[1]), int(h[3]))) > 0 for h in roles["interferers"])


def test_recall_in_the_top_by_spectral_signal(diagnosed) -> None:
    screened, *_ = diagnosed
    chance = pytest.approx(2 / 12)
    assert spectral_recall(screened) == {
        "one": {"recall": pytest.approx(1 / 3), "chance": chance},
        "two": {"recall": pytest.approx(1 / 2), "chance": chance},
    }


def config(**changes) -> Config:
    values = {
        "model": ModelConfig(name="m"),
        "screen": ScreenConfig(name="induction", k=3, sequences=8, length=24),
        "control": ControlConfig(max_sets=20),
        "ablation": ZERO,
        "taxonomy": TaxonomyConfig(min_top1=0.0, min_frac_correct=0.0),
        "protocol": ProtocolConfig(bootstrap=200, redraws=5),
    }
    return Config(**{**values, **changes})


@pytest.fixture(scope="module")
def moe_cell(micro_model):
    cfg = config(protocol=ProtocolConfig(bootstrap=200, redraws=5, redraw_sets=4, head_counts=[1, 3, 5]))
    return screen_ablate(micro_model("olmoe"), prompts(), cfg, JobProgress("test"))


def test_a_cell_of_an_moe_model_reports_everything(moe_cell) -> None:
    row = moe_cell.result["screens"]["induction"]
    expected = {"spectral", "singles", "bos", "additivity", "upper_bound", "self_repair", "routing",
                "seed_robustness", "head_counts"}  # fmt: skip
    assert set(row["diagnostics"]) == expected
    assert row["metrics"]["router_topk_change"] == row["diagnostics"]["routing"]["topk_change"] > 0
    assert "router_entropy_change" in row["metrics"]
    assert set(moe_cell.result["diagnostics"]) == {"overlap", "union"}
    for name in ("rules", "strict_paper"):
        assert sum(row["diagnostics"]["seed_robustness"][name]["shares"].values()) == pytest.approx(1)
    assert row["diagnostics"]["seed_robustness"]["rules"]["label"] == row["taxonomy_logit_diff"]


def test_result_files_take_it(moe_cell) -> None:
    """What is stored must be plain data: JSON knows no numpy, NaN or head."""
    import json

    from mechexp.tracking.files import plain

    json.dumps(plain(moe_cell.result), allow_nan=False)


def test_head_counts_are_nested_and_stand_in_the_conditions(moe_cell) -> None:
    frame = moe_cell.conditions.set_index("role")
    clean = frame.loc["clean", "logit_diff"]
    curve = moe_cell.result["screens"]["induction"]["diagnostics"]["head_counts"]["logit_diff"]["curve"]
    assert [point["k"] for point in curve] == [1, 3, 5]
    sets = []
    for point in curve:
        rows = frame.loc[[role_of(point["k"])]]
        sets.append(set(rows["heads"].iloc[0].split(",")))
        assert len(sets[-1]) == point["k"]
        assert point["delta"] == pytest.approx(rows["logit_diff"].iloc[0] - clean)
        nulls = frame.loc[[role_of(point["k"], null=True)], "logit_diff"] - clean
        assert point["null_sets"] == len(nulls) and point["null_mean"] == pytest.approx(nulls.mean())
    assert sets[0] < sets[1] < sets[2]
    circuit_heads = frame.loc[["circuit"], "heads"].iloc[0].split(",")
    assert sets[1] == set(circuit_heads)  # k = 3 is the circuit itself


def test_nothing_is_measured_that_was_switched_off(micro_model) -> None:
    cfg = config(protocol=ProtocolConfig(bootstrap=200, redraws=0, diagnostics=False))
    cell = screen_ablate(micro_model("olmoe"), prompts(), cfg, JobProgress("test"))
    assert set(cell.conditions["role"]) == {"clean", "circuit", "null", "single", "union", "upper_bound"}
    found = cell.result["screens"]["induction"]["diagnostics"]
    assert "routing" not in found and "seed_robustness" not in found and found["self_repair"] is None
    assert "router_topk_change" not in cell.result["screens"]["induction"]["metrics"]


def test_a_model_that_is_not_competent_is_diagnosed_without_effects(micro_model) -> None:
    cfg = config(taxonomy=TaxonomyConfig(min_top1=0.99))
    cell = screen_ablate(micro_model("llama"), prompts(), cfg, JobProgress("test"))
    assert cell.result["status"] == "not_evaluated"
    assert set(cell.result["screens"]["induction"]["diagnostics"]) == {"spectral"}
    assert cell.result["diagnostics"] == {"overlap": []}


def test_more_heads_than_there_are_is_refused(micro_model) -> None:
    from mechexp.errors import UserError

    cfg = config(protocol=ProtocolConfig(bootstrap=200, head_counts=[13]))
    with pytest.raises(UserError, match="head_counts"):
        screen_ablate(micro_model("llama"), prompts(), cfg, JobProgress("test"))
    cfg = config(protocol=ProtocolConfig(bootstrap=200, redraws=0, head_counts=[12, 2, 13]))
    result = screen_ablate(micro_model("llama"), prompts(), cfg, JobProgress("test")).result
    curve = result["screens"]["induction"]["diagnostics"]["head_counts"]["top1"]["curve"]
    assert [point["k"] for point in curve] == [2, 12]
    assert curve[1]["null_sets"] == 0  # all heads leave none for a matched set
    assert any("head counts 13 are left out" in note for note in result["notes"])


def test_ranking_follows_the_score_and_the_filter() -> None:
    table = pd.DataFrame({"layer": [0, 0, 1, 1], "head": [0, 1, 0, 1], "x_score": [1.0, 4.0, 4.0, 2.0]})
    table["spectral_top"] = [True, False, True, True]
    screened = Screened((), table, ())
    assert ranking(screened, "x", filtered=False) == [Head(0, 1), Head(1, 0), Head(1, 1), Head(0, 0)]
    assert ranking(screened, "x", filtered=True) == [Head(1, 0), Head(1, 1), Head(0, 0)]
    assert head_count_parts(screened, Config()) == [] and head_count_rows([], None, Config()) == {}
