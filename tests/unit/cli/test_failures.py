"""A failed job lets go of its memory, and merged choices are refused."""

import gc
import weakref
from pathlib import Path

import pytest

from mechexp import cli
from mechexp.errors import UserError


class Big:
    """Stands for a model's tensors."""


def test_a_recorded_failure_keeps_nothing_alive(tmp_path: Path) -> None:
    seen: list[weakref.ref[Big]] = []
    kept: list[Exception] = []

    def job() -> None:
        big = Big()
        seen.append(weakref.ref(big))
        try:
            raise ValueError("inner")
        except ValueError as error:
            raise RuntimeError("outer") from error

    for _ in range(10):
        try:
            job()
        except RuntimeError as error:
            cli._record_failure(error, tmp_path, debug=False)
            kept.append(error)  # a launcher keeps the exception until the sweep ends
    gc.collect()
    assert [r() for r in seen] == [None] * 10
    assert (tmp_path / "error.json").is_file()


@pytest.mark.parametrize(
    "argument", ["model=[a,b]", "+task=[ioi,gt]", "model=[a, b]", "ablation=[zero,mean]"]
)
def test_merged_choices_are_refused(argument: str) -> None:
    with pytest.raises(UserError, match="merge"):
        cli.refuse_merged_choices([argument])


@pytest.mark.parametrize(
    "argument", ["model=a,b", "screen.heads=[L1H1,L2H2]", "model=glob(*)", "task.series=[x]"]
)
def test_sweeps_and_lists_of_values_are_not(argument: str) -> None:
    cli.refuse_merged_choices([argument])
