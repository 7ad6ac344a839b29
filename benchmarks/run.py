"""`make bench`: the engine against its peers, and against what the machine's matrix products allow.

Every peer runs one full forward pass a condition, so all conditions cost it the same: it is timed on a sample
of them, in turns with the engine, which runs the whole workload. Results are compared for equality first.
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from benchmarks.machine import CLOCKS, Clock, describe, matmul_peak, sync
from benchmarks.models import MODELS
from benchmarks.peers import PEERS, EndLogits
from benchmarks.report import markdown, plot_growth, plot_ratios
from benchmarks.workloads import Workload, random_prompts, workloads
from mechexp.engine import Condition
from mechexp.engine.blocks import Block
from mechexp.engine.fast import FastRoute
from mechexp.engine.flops import forward_flops, needed_flops
from mechexp.engine.values import Values
from mechexp.models.loaded import LoadedModel
from mechexp.tasks.prompts import PromptSet

TOLERANCE = 1e-3  # between kernels of different batch shapes, in logits


@dataclass
class Row:
    """One workload of one model."""

    model: str
    workload: str
    conditions: int
    prompts: int
    length: int
    seconds: float
    share_of_peak: float
    flops_ratio_end: float
    flops_ratio_all: float
    ratios: dict[str, float] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


@torch.no_grad()
def ours(
    loaded: LoadedModel,
    prompts: PromptSet,
    conditions: Sequence[Condition],
    memory_gb: float,
    keep: frozenset[str] = frozenset(),
) -> dict[str, torch.Tensor]:
    """Run the engine's fast route; keep logits of some conditions only."""
    kept: dict[str, torch.Tensor] = {}

    def emit(condition: Condition, block: Block, logits_PV: torch.Tensor, _: int) -> None:
        if condition.key in keep:
            if condition.key not in kept:
                kept[condition.key] = torch.empty(len(prompts), logits_PV.shape[1])
            kept[condition.key][torch.as_tensor(block.indices)] = logits_PV.float().cpu()

    values = Values(loaded, prompts, None, conditions, seed=0, tokens=8192)
    FastRoute(loaded, memory_gb * 1e9).run(prompts, conditions, values, emit)
    sync(loaded.device)
    return kept


def start_peers(loaded: LoadedModel, names: Sequence[str]) -> tuple[dict[str, EndLogits], dict[str, str]]:
    """The peers that run here, and why the others do not."""
    ready: dict[str, EndLogits] = {}
    missing: dict[str, str] = {}
    for name in names:
        try:
            ready[name] = PEERS[name](loaded)
        except Exception as error:  # a peer that does not start is reported, not hidden
            missing[name] = f"{type(error).__name__}: {error}"[:200]
    return ready, missing


@torch.no_grad()
def measure_workload(
    loaded: LoadedModel,
    prompts: PromptSet,
    work: Workload,
    peers: dict[str, EndLogits],
    *,
    rounds: int,
    sample: int,
    memory_gb: float,
    clock: Clock,
) -> Row:
    """Compare results, then time the engine and its peers in turns."""
    ids = torch.tensor(prompts.ids, device=loaded.device)
    pick = np.linspace(0, len(work.conditions) - 1, min(sample, len(work.conditions))).astype(int)
    chosen = [work.conditions[i] for i in pick]
    keep = frozenset(c.key for c in chosen)
    from mechexp.engine.blocks import make_block

    block = make_block(prompts, np.arange(len(prompts)), (), loaded.device)
    values = Values(loaded, prompts, None, work.conditions, seed=0, tokens=8192)
    known = {c.key: values.of(c.all_edits, block) for c in chosen}
    found = ours(loaded, prompts, work.conditions, memory_gb, keep)
    errors: dict[str, float] = {}
    missing: dict[str, str] = {}
    for name, peer in peers.items():
        try:
            gaps = [
                float((peer(ids, c, known[c.key]).float().cpu() - found[c.key]).abs().max()) for c in chosen
            ]
            errors[name] = max(gaps)
        except NotImplementedError as error:
            missing[name] = str(error)
    wrong = {name: gap for name, gap in errors.items() if not gap <= TOLERANCE}
    if wrong and loaded.dtype == "float32":
        raise SystemExit(f"{loaded.name} {work.name}: results differ, no timing: {wrong}")
    best_ours, best = np.inf, dict.fromkeys(errors, np.inf)
    peak = 0.0
    inner = int(getattr(loaded.model.config, "intermediate_size", 0) or 4 * loaded.d_model)
    for _ in range(rounds):
        peak = max(peak, matmul_peak(loaded.device, loaded.model.dtype, loaded.d_model, inner, clock))
        start = clock()
        ours(loaded, prompts, work.conditions, memory_gb)
        best_ours = min(best_ours, clock() - start)
        for name in errors:
            start = clock()
            for condition in chosen:
                peers[name](ids, condition, known[condition.key])
            sync(loaded.device)
            best[name] = min(best[name], (clock() - start) / len(chosen) * len(work.conditions))
    needed = needed_flops(loaded, prompts, work.conditions)
    total = len(work.conditions)
    return Row(
        model=loaded.name,
        workload=work.name,
        conditions=total,
        prompts=len(prompts),
        length=len(prompts.ids[0]),
        seconds=best_ours,
        share_of_peak=needed / best_ours / peak,
        flops_ratio_end=total * forward_flops(loaded, prompts, every_logit=False) / needed,
        flops_ratio_all=total * forward_flops(loaded, prompts, every_logit=True) / needed,
        ratios={name: seconds / best_ours for name, seconds in best.items()},
        errors=errors,
        missing=missing,
    )


def growth(
    loaded: LoadedModel, work: Workload, *, prompts: int, length: int, memory_gb: float, clock: Clock
) -> dict[str, list[tuple[float, float]]]:
    """Seconds against the number of conditions, of prompts, and of layers above the change."""
    curves: dict[str, list[tuple[float, float]]] = {"conditions": [], "prompts": [], "layers": []}
    some = random_prompts(loaded, prompts, length)

    def time_it(these: PromptSet, conditions: Sequence[Condition]) -> float:
        start = clock()
        ours(loaded, these, conditions, memory_gb)
        return clock() - start

    shuffled = [work.conditions[i] for i in np.random.default_rng(0).permutation(len(work.conditions))]
    for share in (0.125, 0.25, 0.5, 1.0):
        count = max(1, int(share * len(shuffled)))
        curves["conditions"].append((count, time_it(some, shuffled[:count])))
        few = random_prompts(loaded, max(1, int(share * prompts)), length)
        curves["prompts"].append((len(few), time_it(few, shuffled[: len(shuffled) // 4])))
    for layer in np.linspace(0, loaded.n_layers - 1, 4).astype(int):
        here = [c for c in work.conditions if c.heads[0].layer == layer]
        curves["layers"].append((float(loaded.n_layers - layer), time_it(some, here) / len(here)))
    return curves


def main() -> None:
    """Read the options, run, write `bench.json`, `bench.md` and plots."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.run")
    parser.add_argument("--models", nargs="+", default=["smollm2", "tiny_neox"], choices=sorted(MODELS))
    parser.add_argument("--workloads", nargs="+", default=["single", "nulls", "nested", "end"])
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=list(PEERS))
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--length", type=int, default=16)
    parser.add_argument("--sets", type=int, default=99, help="matched sets a circuit")
    parser.add_argument(
        "--stride", type=int, default=1, help="take every n-th condition of the large workloads"
    )
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--sample", type=int, default=3, help="conditions a peer is timed on")
    parser.add_argument("--memory-gb", type=float, default=2.0)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--clock", choices=sorted(CLOCKS), default="wall", help="cpu: for a busy machine")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--no-growth", action="store_true")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results"))
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    clock = CLOCKS[options.clock]
    rows: list[Row] = []
    curves: dict[str, dict[str, list[tuple[float, float]]]] = {}
    machine = describe(torch.device(options.device))
    options.output.mkdir(parents=True, exist_ok=True)
    for name in options.models:
        loaded = MODELS[name](options.device, options.dtype)
        prompts = random_prompts(loaded, options.prompts, options.length)
        peers, missing = start_peers(loaded, options.peers)
        for work in workloads(loaded, sets=options.sets):
            if work.name not in options.workloads:
                continue
            if len(work.conditions) > 50 * options.stride:
                work = replace(work, conditions=work.conditions[:: options.stride])
            start = time.perf_counter()
            row = measure_workload(
                loaded, prompts, work, peers,
                rounds=options.rounds, sample=options.sample, memory_gb=options.memory_gb, clock=clock,
            )  # fmt: skip
            row.missing |= missing
            rows.append(row)
            print(f"{name} {work.name}: {row.seconds:.1f} s, {row.share_of_peak:.0%} of matmul peak, ratios "
                  + ", ".join(f"{k} {v:.1f}x" for k, v in row.ratios.items())
                  + f"  [{time.perf_counter() - start:.0f} s]", flush=True)  # fmt: skip
            if work.name == "single" and not options.no_growth:
                quarter = max(4, options.prompts // 4)
                curves[name] = growth(
                    loaded, work, prompts=quarter, length=options.length, memory_gb=options.memory_gb,
                    clock=clock,
                )  # fmt: skip
            content = {"machine": machine, "clock": options.clock, "rows": [asdict(r) for r in rows]}
            content["growth"] = curves
            (options.output / "bench.json").write_text(json.dumps(content, indent=1) + "\n")
    text = markdown(rows, machine, options.clock)
    (options.output / "bench.md").write_text(text)
    plot_ratios(rows, options.output / "ratios.png")
    if curves:
        plot_growth(curves, options.output / "growth.png")
    print(text)


if __name__ == "__main__":
    main()
