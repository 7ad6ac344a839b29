"""Across models: is a primary cause shared, at comparable size, and do screens of one name do the same?

Circuits are compared by name, the screen that picked them; a head index means nothing in another model.
"""

from dataclasses import dataclass
from itertools import combinations

import pandas as pd

from mechexp.findings.cells import CellPrimary, check_frame, primaries
from mechexp.findings.differences import Estimate, difference, equivalence

PAIR_COLUMNS = (
    "screen", "task_a", "model_a", "task_b", "model_b",
    "effect_a", "effect_b", "difference", "low", "high", "comparable",
)  # fmt: skip
MARGIN = 0.2  # of the clean logit difference: the paper's "meaningful" size, as a share (ours)


@dataclass(frozen=True)
class Claim:
    """A statement that was tested.

    Attributes:
        statement: What is claimed.
        verdict: ``true``, ``false``, ``undecided`` or ``untested``.
        reason: Why, in a sentence.
        evidence: The pairs of cells that bear on it, ``PAIR_COLUMNS``.
    """

    statement: str
    verdict: str
    reason: str
    evidence: pd.DataFrame


def primary_table(frame: pd.DataFrame) -> pd.DataFrame:
    """Tasks × models; each entry the primary screen, ``none``, or ``? (why it is not settled)``."""
    rows = [(c.task, c.model, _entry(c)) for c in primaries(frame)]
    table = pd.DataFrame(rows, columns=["task", "model", "primary"])
    return table.pivot(index="task", columns="model", values="primary")


def shared_primaries(
    frame: pd.DataFrame, *, within_task: bool = True, margin: float = MARGIN
) -> pd.DataFrame:
    """Pairs of cells that share a primary, with the difference of its effect.

    Args:
        frame: One row a screen, see ``mechexp.findings.cells``.
        within_task: Compare models on the same task only; else any two cells.
        margin: Two effects are of comparable size if the interval of their difference lies within ± this
            share of the clean logit difference.

    Returns:
        One row a pair. Effects are Δ of the logit difference as a share of its clean value, whose own
        uncertainty is left out; ``comparable`` is yes, no or undecided.
    """
    found = primaries(frame)
    effects = _effects(frame)
    pairs = []
    for a, b in combinations(found, 2):
        if within_task and a.task != b.task:
            continue
        for screen in sorted(set(a.screens) & set(b.screens)):
            x, y = effects[a.model, a.task, screen], effects[b.model, b.task, screen]
            d, low, high = difference(x, y)
            pairs.append(
                (
                    screen,
                    a.task,
                    a.model,
                    b.task,
                    b.model,
                    x[0],
                    y[0],
                    d,
                    low,
                    high,
                    equivalence(low, high, margin),
                )
            )
    return pd.DataFrame(pairs, columns=list(PAIR_COLUMNS))


def no_shared_primary(
    frame: pd.DataFrame, *, within_task: bool = True, comparable: bool = False, margin: float = MARGIN
) -> Claim:
    """Test the paper's statement that no two cells share a primary cause (Xu 2026).

    Args:
        frame: One row a screen.
        within_task: Read "two cells" as two models on one task; else as any two cells.
        comparable: Count a primary as shared only where its effects are of comparable size.
        margin: See :func:`shared_primaries`.
    """
    cells = "two models share a primary on one task" if within_task else "two cells share a primary"
    statement = f"no {cells}" + (" of comparable size" if comparable else "")
    pairs = shared_primaries(frame, within_task=within_task, margin=margin)
    found = primaries(frame)
    against = pairs[pairs["comparable"] == "yes"] if comparable else pairs
    if len(against):
        pair = against.iloc[0]
        cell_a, cell_b = f"{pair.model_a} · {pair.task_a}", f"{pair.model_b} · {pair.task_b}"
        reason = f"{len(against)} pair(s) share one, e.g. {pair.screen} in {cell_a} and {cell_b}"
        return Claim(statement, "false", reason, pairs)
    if not _comparisons(found, within_task):
        return Claim(statement, "untested", "no two cells were compared that both have a primary", pairs)
    unsettled = [f"{c.model} · {c.task} ({c.reason})" for c in found if not c.decided]
    if unsettled:
        return Claim(statement, "undecided", f"not settled: {'; '.join(unsettled)}", pairs)
    if comparable and (pairs["comparable"] == "undecided").any():
        return Claim(
            statement, "undecided", "a pair shares one, but the intervals leave its size open", pairs
        )
    return Claim(statement, "true", "every pair of cells with a primary has another one", pairs)


def name_transfer(frame: pd.DataFrame) -> pd.DataFrame:
    """Do screens of one name do the same in two models?

    Returns:
        One row a screen and pair of models: tasks on which both were labelled, the share of them with the
        same label, and the largest difference of the effect (share of the clean logit difference).
    """
    check_frame(frame)
    judged = frame[~frame["taxonomy"].isin(["not_evaluated", "empty"])]
    effects, rows = _effects(judged), []
    for name, group in judged.groupby("screen", sort=True):
        screen = str(name)
        labels = group.pivot(index="task", columns="model", values="taxonomy")
        for a, b in combinations(sorted(labels.columns), 2):
            both = labels[[a, b]].dropna()
            gaps = [abs(effects[a, str(t), screen][0] - effects[b, str(t), screen][0]) for t in both.index]
            if len(both):
                rows.append((screen, a, b, len(both), float((both[a] == both[b]).mean()), max(gaps)))
    columns = ["screen", "model_a", "model_b", "tasks", "same_label", "largest_difference"]
    return pd.DataFrame(rows, columns=columns)


def _effects(frame: pd.DataFrame) -> dict[tuple[str, str, str], Estimate]:
    """Δ of the logit difference as a share of clean, with its interval, by model, task and screen."""
    names = ["delta_logit_diff", "delta_logit_diff_low", "delta_logit_diff_high", "clean_logit_diff"]
    check_frame(frame, *names)
    found: dict[tuple[str, str, str], Estimate] = {}
    for row in frame[["model", "task", "screen", *names]].itertuples(index=False):
        model, task, screen, *numbers = row
        value, low, high, clean = (float(x) for x in numbers)
        scale = 1 / abs(clean) if clean else float("nan")
        found[model, task, screen] = (value * scale, low * scale, high * scale)
    return found


def _comparisons(found: list[CellPrimary], within_task: bool) -> bool:
    with_one = [c for c in found if c.screens]
    return any(a.task == b.task or not within_task for a, b in combinations(with_one, 2))


def _entry(cell: CellPrimary) -> str:
    if not cell.decided:
        return f"? ({cell.reason})"
    return " = ".join(cell.screens) or "none"
