"""``python -m mechexp.zoo train NAME`` and ``python -m mechexp.zoo check [NAME …]``."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from mechexp.errors import UserError
from mechexp.zoo.architectures import ARCHITECTURES


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Returns:
        0 if the model passes; 1 if it does not; 2 for a mistake in the command.
    """
    parser = _parser()
    try:
        args = parser.parse_args(argv)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 2
    try:
        return _train(args) if args.command == "train" else _check(args)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m mechexp.zoo", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    train = commands.add_parser("train", help="train a model from scratch")
    train.add_argument("name", choices=sorted(ARCHITECTURES))
    train.add_argument("--seed", type=int, default=None, help="default: the recipe's")
    train.add_argument("--steps", type=int, default=None, help="default: the recipe's")
    train.add_argument("--threads", type=int, default=1, help="CPU threads; the shipped models used 1")
    train.add_argument(
        "--output",
        type=Path,
        default=None,
        help="folder to write; default: zoo_weights/NAME",
    )
    check = commands.add_parser("check", help="verify files and accuracies of shipped models")
    check.add_argument("name", nargs="*", help="models; default: all that are shipped")
    check.add_argument("--folder", type=Path, default=None, help="where the models are; default: the package")
    return parser


def _train(args: argparse.Namespace) -> int:
    """Train, write the folder, and say whether the model passes."""
    import torch

    from mechexp.zoo.evaluation import PASS, not_learned
    from mechexp.zoo.recipe import recipe_for
    from mechexp.zoo.shipping import ship
    from mechexp.zoo.training import train

    recipe = recipe_for(args.name, seed=args.seed, steps=args.steps)
    folder = args.output or Path("zoo_weights") / args.name
    if folder.exists() and any(folder.iterdir()):
        raise UserError(f"{folder} is not empty", where="--output", expected="a new or empty folder")
    if args.threads < 1:
        raise UserError(f"--threads {args.threads}", expected="1 or more")
    torch.set_num_threads(args.threads)
    found = ship(train(recipe), folder)
    print(f"{folder}: held-out top-1 {_numbers(found['held_out'])}")
    low = not_learned(found, recipe.learns)
    if low:
        print(f"below {PASS} on {', '.join(low)}: the model does not pass", file=sys.stderr)
        return 1
    return 0


def _check(args: argparse.Namespace) -> int:
    """Check each model; all faults of all models are told."""
    from mechexp.zoo.check import check_accuracies, check_files
    from mechexp.zoo.shipping import SUMS, WEIGHTS

    root = args.folder or WEIGHTS
    names = args.name or sorted(p.parent.name for p in root.glob(f"*/{SUMS}"))
    if not names:
        raise UserError(f"no trained models in {root}", expected=f"folders with {SUMS}")
    failed = False
    for name in names:
        faults = check_files(root / name)
        if not faults:
            found, faults = check_accuracies(root / name)
            print(f"{name}: held-out top-1 {_numbers(found['held_out'])}")
        for fault in faults:
            print(f"{name}: {fault}", file=sys.stderr)
        failed |= bool(faults)
    print("check failed" if failed else f"{len(names)} models are as they should be")
    return int(failed)


def _numbers(found: dict[str, float]) -> str:
    return ", ".join(f"{task} {share:.3f}" for task, share in found.items())


if __name__ == "__main__":
    sys.exit(main())
