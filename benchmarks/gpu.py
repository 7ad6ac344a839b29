"""`make bench-gpu`: the shapes of pythia, olmo and olmoe on one GPU, in under ten minutes.

For each shape and dtype: exactness against plain passes, seconds a condition of the nulls of five circuits,
peak memory, the strictest baseline, and the cost of the paper's grid (3 models × 4 tasks × about 8 screens)
with 199 sets extrapolated from it.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch

from benchmarks.machine import describe, matmul_peak, sync
from benchmarks.models import MODELS
from benchmarks.peers import plain_hooks
from benchmarks.run import ours
from benchmarks.workloads import random_prompts, workloads
from mechexp.engine import EngineConfig, run
from mechexp.engine.flops import needed_flops

TASKS, SCREENS, SETS = 4, 8, 199


@torch.no_grad()
def shape(name: str, dtype: str, *, prompts: int, length: int, memory_gb: float) -> dict[str, object]:
    """Measure one model shape in one dtype."""
    loaded = MODELS[name]("cuda", dtype)
    few = random_prompts(loaded, 8, length)
    work = workloads(loaded, sets=19)[1].conditions
    plain = run(loaded, few, work[:6], config=EngineConfig(route="plain", memory_gb=memory_gb))
    fast = run(loaded, few, work[:6], config=EngineConfig(memory_gb=memory_gb))
    pairs = zip(fast.outcomes, plain.outcomes, strict=True)
    gap = max(float(np.abs(a.logit_diff - b.logit_diff).max()) for a, b in pairs)
    some = random_prompts(loaded, prompts, length)
    ours(loaded, some, work[:8], memory_gb)  # warm up
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    start = time.perf_counter()
    ours(loaded, some, work, memory_gb)
    seconds = time.perf_counter() - start
    peak_bytes = torch.cuda.max_memory_allocated() - before
    baseline, ids = plain_hooks(loaded, end_only=True), torch.tensor(some.ids, device="cuda")
    zero = torch.zeros((), device="cuda", dtype=loaded.model.dtype)
    sync(loaded.device)
    start = time.perf_counter()
    for condition in work[:4]:
        for rows in ids.split(64):
            baseline(rows, condition, {e.key: zero for e in condition.all_edits})
    sync(loaded.device)
    plain_s = (time.perf_counter() - start) / 4
    inner = int(loaded.model.config.intermediate_size)
    peak = matmul_peak(loaded.device, loaded.model.dtype, loaded.d_model, inner, time.perf_counter)
    a_condition = seconds / len(work)
    return {
        "model": name,
        "dtype": dtype,
        "route": fast.route,
        "notes": list(fast.notes),
        "largest_error": gap,
        "conditions": len(work),
        "prompts": prompts,
        "seconds_a_condition": a_condition,
        "faster_than_plain_end_logits": plain_s / a_condition,
        "share_of_matmul_peak": needed_flops(loaded, some, work) / seconds / peak,
        "peak_gb": peak_bytes / 1e9,
        "grid_hours_199_sets": TASKS * SCREENS * (SETS + 1) * a_condition / 3600,
    }


def main() -> None:
    """Run all shapes, print a table, write `bench_gpu.json`."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.gpu")
    parser.add_argument("--models", nargs="+", default=["pythia", "olmo", "olmoe"])
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--prompts", type=int, default=250)
    parser.add_argument("--length", type=int, default=20)
    parser.add_argument("--memory-gb", type=float, default=8.0)
    parser.add_argument("--minutes", type=float, default=9.0, help="start no further shape after this long")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results"))
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("no CUDA device here: bench-gpu needs one")
    torch.backends.cuda.matmul.allow_tf32 = False
    options.output.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, object]] = []
    start = time.perf_counter()
    for name in options.models:
        for dtype in options.dtypes:
            if time.perf_counter() - start > 60 * options.minutes:
                print(f"{name} {dtype}: not run, out of time")
                continue
            row = shape(
                name, dtype, prompts=options.prompts, length=options.length, memory_gb=options.memory_gb
            )
            rows.append(row)
            print(json.dumps(row), flush=True)
            torch.cuda.empty_cache()
            content = {"machine": describe(torch.device("cuda")), "rows": rows}
            (options.output / "bench_gpu.json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
