"""``experiment=paper_grid`` as on a machine with the three models: the same configs, from a hub cache.

The models are stock classes with random weights, so what they do means nothing; that every cell runs does.
"""

import json
import shutil
from pathlib import Path

import pytest

COMMIT = "0123456789abcdef0123456789abcdef01234567"
IDS = {
    "pythia": "EleutherAI/pythia-1b",
    "olmo": "allenai/OLMo-1B-0724-hf",
    "olmoe": "allenai/OLMoE-1B-7B-0924",
}
WIDTHS = {"small": (64, 4, 128, 4), "full": (2048, 16, 8192, 64)}


def saved(folder: Path, name: str, size: str) -> None:
    """A model of the class of ``name`` with random weights, few layers and the zoo's tokenizer."""
    import torch
    from transformers import AutoModelForCausalLM, GPTNeoXConfig, OlmoConfig, OlmoeConfig

    from mechexp.zoo.tokenizer import build_tokenizer

    tokenizer = build_tokenizer()
    width, heads, hidden, experts = WIDTHS[size]
    common = {
        "vocab_size": len(tokenizer),
        "hidden_size": width,
        "num_hidden_layers": 2 if size == "full" else 3,
        "max_position_embeddings": 256,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": 1,
    }
    config = {
        "pythia": lambda: GPTNeoXConfig(num_attention_heads=heads // 2, intermediate_size=hidden, **common),
        "olmo": lambda: OlmoConfig(num_attention_heads=heads, intermediate_size=hidden, **common),
        "olmoe": lambda: OlmoeConfig(
            num_attention_heads=heads,
            intermediate_size=hidden // 8,
            num_experts=experts,
            num_experts_per_tok=min(8, experts // 2),
            **{**common, "num_hidden_layers": 1 if size == "full" else 3},
        ),
    }[name]()
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def in_cache(cache: Path, name: str, size: str) -> None:
    """Lay the model out as the hub's own cache does."""
    root = cache / f"models--{IDS[name].replace('/', '--')}"
    saved(root / "snapshots" / COMMIT, name, size)
    (root / "refs").mkdir()
    (root / "refs" / "main").write_text(COMMIT)


def grid(run, tmp_path, size: str, *overrides: str):
    cache = tmp_path / "hub"
    for name in IDS:
        in_cache(cache, name, size)
    offline = {"HF_HUB_CACHE": str(cache), "HF_HUB_OFFLINE": "1"}
    done = run(
        "experiment=paper_grid", "taxonomy.min_top1=0", "taxonomy.min_frac_correct=0", *overrides, **offline
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    shutil.rmtree(cache)
    return [json.loads(p.read_text()) for p in sorted(tmp_path.glob("multirun/**/result.json"))]


def check(results, tasks):
    keys = {(r["model"]["name"], r["task"]["name"], r["control"]["name"]) for r in results}
    assert keys == {(m, t, c) for m in IDS for t in tasks for c in ("paper", "matched_199")}
    assert len(results) == len(keys)
    assert {r["ablation"]["kind"] for r in results} == {"zero"}
    assert {r["model"]["id"] for r in results} == set(IDS.values())
    judged = [s for r in results for s in r["screens"].values() if s["n_heads"]]
    assert judged and all(abs(s["metrics"]["delta_logit_diff"]) < 1e3 for s in judged)
    published = [
        s["metrics"]["null_sets"]
        for r in results
        if r["control"]["name"] == "paper"
        for s in r["screens"].values()
    ]
    assert max(published) == 10


@pytest.mark.slow
def test_small_models_through_the_published_configs(run, tmp_path):
    results = grid(run, tmp_path, "small", "task=vb", "task.n=16", "protocol.bootstrap=200")
    check(results, ("vb",))
    beside = run("--against", "published", "--format", "csv", module="mechexp.compare")
    assert beside.returncode == 0, beside.stderr
    assert all(name in beside.stdout for name in IDS)


@pytest.mark.slow
def test_full_width_models_through_the_published_configs(run, tmp_path):
    results = grid(
        run,
        tmp_path,
        "full",
        "task=ioi",
        "task.n=4",
        "screen=prev_token",
        "protocol.bootstrap=100",
        "singles=none",
    )
    check(results, ("ioi",))
