"""Draws and null statistics of the published grid (Xu 2026), number for number."""

import json
from pathlib import Path

import numpy as np
import pytest

from mechexp.controls import draw
from mechexp.findings import summarise_null
from mechexp.models.heads import Geometry, Head
from mechexp.screens.circuit import Circuit

GOLDEN = json.loads((Path(__file__).parent / "data" / "golden.json").read_text())


def heads_of(layers):
    return [Head(layer, head) for layer, heads in layers for head in heads]


@pytest.mark.parametrize("seed", range(4))
def test_draws(seed):
    golden = GOLDEN["matched_random_draws"]
    circuit = Circuit(
        "s_inhibition", tuple(heads_of(golden["circuit_in_order"])), "olmo", "", "", Geometry(16, 16, 128)
    )
    drawn = draw(circuit, control="paper").sets[seed]
    assert drawn == tuple(sorted(heads_of(golden["draws"][str(seed)])))


def test_aggregation():
    golden = GOLDEN["null_aggregation"]
    deltas = np.array(golden["ablated_top1"]) - golden["clean_top1"]
    null = summarise_null(-0.32, deltas, metric="top1", clean=golden["clean_top1"])
    percent = [100 * x for x in (null.mean, null.std, null.min, null.max)]
    assert np.round(percent, 2).tolist() == [
        golden["delta_mean_pp"],
        golden["sd_ddof1_pp"],
        golden["min_pp"],
        golden["max_pp"],
    ]
    assert null.p_harm == pytest.approx(1 / 11)
    assert null.specificity == pytest.approx(0.32 / 0.0658, rel=1e-3)
    assert null.z == pytest.approx((-0.32 + 0.0658) / 0.0931, rel=1e-2)
