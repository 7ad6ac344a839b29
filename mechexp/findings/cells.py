"""The frame that comparisons across cells work on, and what a cell says about its primary.

One row a screen: ``model, task, screen, taxonomy, flags`` (comma-separated) and the metrics of a screen under
their usual names; ``moe`` (bool) where MoE and dense models are told apart. One control and one kind of
ablation.
"""

from dataclasses import dataclass

import pandas as pd

from mechexp.errors import UserError

UNDECIDED = ("indeterminate", "not_evaluated")


@dataclass(frozen=True)
class CellPrimary:
    """What is primary in one cell.

    Attributes:
        model: The model.
        task: The task.
        screens: The primary screens: one, several if they picked the same heads, or none.
        decided: Whether that is settled; if not, ``reason`` says why.
        reason: Why it is not settled.
    """

    model: str
    task: str
    screens: tuple[str, ...]
    decided: bool
    reason: str = ""


def check_frame(frame: pd.DataFrame, *more: str) -> None:
    """Refuse a frame that is not one row a screen.

    Raises:
        UserError: A column is missing, or a model × task × screen is there twice.
    """
    missing = [c for c in ("model", "task", "screen", "taxonomy", "flags", *more) if c not in frame.columns]
    if missing:
        raise UserError(f"the results lack {', '.join(missing)}", where="comparison across cells")
    twice = frame.duplicated(["model", "task", "screen"])
    if twice.any():
        first = frame.loc[twice, ["model", "task", "screen"]].iloc[0]
        raise UserError(
            f"{' · '.join(map(str, first))} is there more than once",
            where="comparison across cells",
            expected="one control, one kind of ablation and one k for each model × task × screen",
            todo="choose one sweep, or filter the rows",
        )


def has_flag(row: pd.Series, flag: str) -> bool:
    """Whether a row carries a flag."""
    return flag in str(row["flags"]).split(",")


def cell_primary(rows: pd.DataFrame) -> CellPrimary:
    """The primary of one cell, from its rows.

    Not settled where nothing was evaluated, where a larger effect is undecided (``primary_open``), or where
    no screen is primary while one is indeterminate.
    """
    model, task = str(rows["model"].iloc[0]), str(rows["task"].iloc[0])
    primary = tuple(sorted(rows.loc[rows["taxonomy"] == "primary", "screen"].astype(str)))
    if primary:
        return CellPrimary(model, task, primary, True)
    if (rows["taxonomy"] == "not_evaluated").all():
        return CellPrimary(model, task, (), False, "the model is not competent")
    if any(has_flag(row, "primary_open") for _, row in rows.iterrows()):
        return CellPrimary(model, task, (), False, "a larger effect is undecided")
    open_screens = sorted(rows.loc[rows["taxonomy"].isin(UNDECIDED), "screen"].astype(str))
    if open_screens:
        return CellPrimary(model, task, (), False, f"undecided: {', '.join(open_screens)}")
    return CellPrimary(model, task, (), True)


def primaries(frame: pd.DataFrame) -> list[CellPrimary]:
    """The primary of every cell, by task and model."""
    check_frame(frame)
    return [cell_primary(rows) for _, rows in frame.groupby(["task", "model"], sort=True)]
