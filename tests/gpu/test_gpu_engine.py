"""The engine on CUDA: exactness in fp32 and bf16, the memory budget, and real out-of-memory back-off."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "integration" / "engine"))
sys.path.insert(0, str(Path(__file__).parents[2]))

import engine_micro as em

from benchmarks.models import random_model
from benchmarks.workloads import random_prompts, workloads
from mechexp.engine import Condition, EngineConfig, run
from mechexp.engine.memory import Budget

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def medium(kind="llama", dtype="float32", **settings):
    sizes = {"vocab_size": 8192, "hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 6}
    sizes |= {"num_attention_heads": 8, "num_key_value_heads": 8, "max_position_embeddings": 256}
    return random_model(f"medium-{kind}", kind, "cuda", dtype, kind, **{**sizes, **settings})


MOE = {"num_experts": 8, "num_experts_per_tok": 2, "intermediate_size": 256}
KINDS = {"llama": {"num_key_value_heads": 2}, "gpt_neox": {}, "olmo2": {}, "olmoe": MOE}


@pytest.fixture(autouse=True)
def _exact_products():
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    yield
    torch.backends.cuda.matmul.allow_tf32 = before
    torch.cuda.empty_cache()


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_fast_equals_plain_on_cuda(kind, dtype):
    loaded = medium(kind, dtype, **KINDS[kind])
    prompts = random_prompts(loaded, 12, 24)
    conditions = [Condition(), *(c for w in workloads(loaded, sets=5) for c in w.conditions[::7])]
    conditions = list({c.key: c for c in conditions}.values())
    plain = run(loaded, prompts, conditions, config=EngineConfig(route="plain"))
    fast = run(loaded, prompts, conditions)
    assert fast.route == "fast", fast.notes
    gaps = [
        np.abs(a.logit_diff - b.logit_diff).max() for a, b in zip(fast.outcomes, plain.outcomes, strict=True)
    ]
    assert max(gaps) < (1e-4 if dtype == "float32" else 0.25)
    assert [o.edited for o in fast.outcomes] == [o.edited for o in plain.outcomes]


@pytest.mark.parametrize("memory_gb", [0.25, 1.0, 4.0])
def test_peak_memory_stays_within_the_budget(memory_gb):
    loaded = medium("llama")
    prompts = random_prompts(loaded, 256, 64)
    conditions = [c for w in workloads(loaded, sets=5) for c in w.conditions]
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run(loaded, prompts, conditions, config=EngineConfig(route="fast", memory_gb=memory_gb))
    assert torch.cuda.max_memory_allocated() - before < memory_gb * 1e9
    assert torch.cuda.memory_allocated() - before < 0.01e9  # nothing is kept alive


def test_real_out_of_memory_halves_the_states_and_gives_the_same_numbers(monkeypatch):
    loaded = medium("llama")
    prompts = random_prompts(loaded, 64, 128)
    conditions = workloads(loaded, sets=1)[0].conditions
    expected = run(loaded, prompts, conditions, config=EngineConfig(route="fast", memory_gb=1.0))
    free, total = torch.cuda.mem_get_info()
    share = (torch.cuda.memory_reserved() + 1.5e9) / total
    # the planner is told that everything fits at once, the device that 1.5 GB is all there is
    monkeypatch.setattr(Budget, "states", lambda *_: 48)
    monkeypatch.setattr(Budget, "prompts", lambda *_: 64)
    torch.cuda.set_per_process_memory_fraction(min(1.0, share))
    try:
        found = run(loaded, prompts, conditions, config=EngineConfig(route="fast", memory_gb=8.0))
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert free > 0
    for a, b in zip(found.outcomes, expected.outcomes, strict=True):
        assert np.abs(a.logit_diff - b.logit_diff).max() < 1e-4


def test_micro_models_agree_between_cpu_and_cuda():
    cpu = em.micro("llama")
    import copy

    moved = copy.copy(cpu)
    object.__setattr__(moved, "model", copy.deepcopy(cpu.model).cuda())
    conditions = [Condition(), *(Condition((h,), "mean") for h in em.heads_of(cpu))]
    a = run(cpu, em.prompts(), conditions, reference=em.reference_prompts())
    b = run(moved, em.prompts(), conditions, reference=em.reference_prompts())
    for x, y in zip(a.outcomes, b.outcomes, strict=True):
        assert np.abs(x.logit_diff - y.logit_diff).max() < 1e-4
