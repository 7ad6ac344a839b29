"""``python -m mechexp.calibrate``: how often the labels are right, on models whose circuits are known."""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from mechexp.errors import UserError


def main(arguments: list[str] | None = None) -> int:
    """Run or resume a calibration, print its table, leave ``calibration.json`` and plots; the exit code."""
    args = parser().parse_args(arguments)
    try:
        calibrate(args)
    except UserError as error:
        print(f"\nerror: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nstopped; finished models are kept, the same command goes on from here", file=sys.stderr)
        return 130
    return 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    p = argparse.ArgumentParser(prog="python -m mechexp.calibrate", description=__doc__)
    p.add_argument("--models", type=int, default=200, help="planted models (default 200)")
    p.add_argument("--seed", type=int, default=0, help="the models are seed, seed + 1, … (default 0)")
    p.add_argument("--output", type=Path, help="folder of the results; finished models in it are kept "
                   "(default calibration/<protocol>_seed<seed>)")  # fmt: skip
    p.add_argument(
        "--protocol", choices=["screen_ablate"], default="screen_ablate", help="what is calibrated"
    )
    p.add_argument("--prompts", type=int, default=64, help="prompts a model, both halves (default 64)")
    p.add_argument("--vary", type=int, help="models also run under other kinds of ablation and numbers "
                   "of prompts (default: one in 20)")  # fmt: skip
    p.add_argument("--population", type=int, default=1000, help="fresh prompts that the intervals of every "
                   "second model are held against (default 1000; 0: none)")  # fmt: skip
    p.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one a core)")
    p.add_argument("--tracking", choices=["local", "server", "off"], default="local", help="MLflow store")
    p.add_argument("--tracking-uri", default="", help="address of the tracking server")
    p.add_argument("--experiment", default="mechexp", help="MLflow experiment (default mechexp)")
    p.add_argument("--root", default="mlruns", help="folder of the local MLflow store (default mlruns)")
    return p


def asks_of(args: argparse.Namespace) -> list[Any]:
    """The models and what is asked of each.

    Raises:
        UserError: Numbers that make no sense.
    """
    from mechexp.calibrate.cell import Ask, Setting
    from mechexp.planted.blueprint import PlantedOptions

    for name, value, least in (
        ("models", args.models, 1), ("seed", args.seed, 0), ("prompts", args.prompts, 20),
        ("population", args.population, 0), ("jobs", args.jobs, 1), ("vary", args.vary or 0, 0),
    ):  # fmt: skip
        if value < least:
            raise UserError(f"--{name} {value}", where="command line", expected=f"{least} or more")
    vary = args.models // 20 if args.vary is None else min(args.vary, args.models)
    n = args.prompts
    default = Setting(prompts=n)
    others = (
        Setting("zero", "zero", n),
        Setting("resample", "resample", n),
        Setting("prompts_32", prompts=32),
        Setting("prompts_200", prompts=200),
    )
    return [
        Ask(
            PlantedOptions(seed=args.seed + i),
            (default, *others) if i < vary else (default,),
            args.population if i % 2 == 0 else 0,
        )
        for i in range(args.models)
    ]


def calibrate(args: argparse.Namespace) -> dict[str, Any]:
    """Run the models, summarise, print, plot, log."""
    from rich.console import Console

    from mechexp.calibrate.plots import draw_all
    from mechexp.calibrate.runner import run_all
    from mechexp.calibrate.show import show
    from mechexp.calibrate.summary import summarise
    from mechexp.progress import JobProgress

    asks = asks_of(args)
    folder = args.output or Path("calibration") / f"{args.protocol}_seed{args.seed}"
    progress = JobProgress(f"calibrating {args.protocol}")
    with progress.stage(f"{len(asks)} planted models", "models_s") as advance:
        rows = run_all(asks, folder / "models", args.jobs, advance)
    summary = summarise(rows)
    summary["seconds"] = {"models": progress.timing["models_s"], "cpu": sum(r["seconds"] for r in rows)}
    summary["asked"] = {"seed": args.seed, "prompts": args.prompts, "protocol": args.protocol}
    (folder / "calibration.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    draw_all(summary, folder / "plots")
    show(summary, Console())
    if args.tracking != "off":
        _track(summary, folder, args)
    print(f"Results: {folder}  (calibration.json, plots/)")
    return summary


def _track(summary: dict[str, Any], folder: Path, args: argparse.Namespace) -> None:
    from mechexp.calibrate.mirror import mirror
    from mechexp.tracking.config import TrackingConfig

    cfg = TrackingConfig(args.tracking, args.tracking_uri, args.experiment, args.root)
    params = {"protocol": args.protocol, "models": args.models, "seed": args.seed, "n_prompts": args.prompts}
    mirror(summary, folder, params, cfg)


if __name__ == "__main__":
    sys.exit(main())
