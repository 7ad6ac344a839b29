"""The MoE hypothesis in words: every cell is listed, and what would falsify it is said."""

import pandas as pd

from mechexp.report.grid import grids


def rows(label: str) -> list[dict]:
    return [
        {
            "model": model, "task": task, "screen": "prev_token", "setting": "x", "moe": moe, "arch": model,
            "taxonomy": label if moe else "null", "flags": "", "clean_logit_diff": 2.0,
            "delta_logit_diff": -1.0, "delta_logit_diff_low": -1.2, "delta_logit_diff_high": -0.8,
            **({"router_topk_change": 0.25, "router_entropy_change": 0.01} if moe else {}),
        }
        for model, moe in (("mixed", True), ("plain", False))
        for task in ("gt", "succ")
    ]  # fmt: skip


def test_verdict_falsifier_and_every_cell_with_its_routing() -> None:
    (grid,) = grids(rows("primary"))
    text = "\n".join(grid.sentences)
    assert "undecided" in text and "would falsify it" in text
    assert "mixed (MoE) · gt: supports" in text and "mixed (MoE) · succ: supports" in text
    assert text.count("25% of tokens change experts") == 2
    assert "plain (dense) · gt: does not show it" in text


def test_a_contradiction_is_said() -> None:
    (grid,) = grids(rows("null"))
    assert any("contradicted" in s for s in grid.sentences)
    assert "mixed (MoE) · gt: contradicts" in "\n".join(grid.sentences)


def test_without_moe_models_there_is_nothing_to_say() -> None:
    dense = pd.DataFrame(rows("null")).query("not moe").to_dict("records")
    (grid,) = grids(dense)
    assert not any("MoE" in s for s in grid.sentences)
