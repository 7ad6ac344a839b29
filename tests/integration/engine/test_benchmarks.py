"""The benchmark compares results before it times them, and its peers do what it says."""

import sys
import time
from pathlib import Path

import engine_micro as em
import pytest

sys.path.insert(0, str(Path(__file__).parents[3]))

from benchmarks.peers import plain_hooks
from benchmarks.report import markdown, plot_growth, plot_ratios
from benchmarks.run import growth, measure_workload
from benchmarks.workloads import random_prompts, workloads

OPTIONS = {"rounds": 1, "sample": 3, "memory_gb": 1.0, "clock": time.perf_counter}


@pytest.fixture
def peers():
    loaded = em.micro("llama")
    return {
        "end": plain_hooks(loaded, end_only=True),
        "all": plain_hooks(loaded, end_only=False),
    }


def test_every_workload_is_compared_and_timed(peers, tmp_path):
    loaded = em.micro("llama")
    prompts = random_prompts(loaded, 4, 8)
    works = workloads(loaded, sets=4, nested=5)
    assert [len(w.conditions) for w in works if w.name != "nulls"] == [12, 5, 12]
    rows = [measure_workload(loaded, prompts, w, peers, **OPTIONS) for w in works]
    for row in rows:
        assert set(row.ratios) == {"end", "all"}
        assert max(row.errors.values()) < 1e-4
        assert row.flops_ratio_all > row.flops_ratio_end > 1
        assert row.seconds > 0 and row.share_of_peak > 0
    text = markdown(rows, "a machine", "wall")
    assert text.count("micro-llama") == 4 and "a machine" in text
    plot_ratios(rows, tmp_path / "ratios.png")
    curves = growth(loaded, works[0], prompts=4, length=8, memory_gb=1.0, clock=time.perf_counter)
    plot_growth({"micro": curves}, tmp_path / "growth.png")
    assert all((tmp_path / name).stat().st_size > 5000 for name in ("ratios.png", "growth.png"))


def test_a_peer_that_differs_stops_the_benchmark(peers):
    loaded = em.micro("llama")
    wrong = {"wrong": lambda *args: peers["end"](*args) + 0.01}
    with pytest.raises(SystemExit, match="differ"):
        measure_workload(loaded, random_prompts(loaded, 4, 8), workloads(loaded)[0], wrong, **OPTIONS)
