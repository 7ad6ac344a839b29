"""Which labels survive a change of prompts, nulls or ablation: one claim under many settings (ours)."""

import pandas as pd

KEYS = ["model", "task", "screen"]
COLUMNS = (*KEYS, "settings", "label", "share", "labels", "depends_on", "n_circuits")


def surviving_labels(rows: pd.DataFrame, varied: list[str]) -> pd.DataFrame:
    """How often each screen keeps its label across settings.

    Args:
        rows: One row a screen and setting: ``model, task, screen, heads`` (text), ``taxonomy`` and the
            columns of ``varied``.
        varied: What differs between the settings, such as ``ablation`` or ``task.seed``.

    Returns:
        One row a model × task × screen: number of settings, the commonest label and its share, all labels
        with their counts, the varied keys that the label depends on (some pair of settings that differ in
        that key alone has two labels), and how many different sets of heads were picked.
    """
    found = []
    for key, group in rows.groupby(KEYS, sort=True):
        counts = group["taxonomy"].value_counts()
        top = sorted(counts.index[counts == counts.max()])[0]
        found.append(
            (
                *key,
                len(group),
                top,
                float(counts[top] / len(group)),
                ", ".join(f"{label} {n}" for label, n in counts.items()),
                ", ".join(k for k in varied if depends_on(group, k, varied)),
                int(group["heads"].nunique()),
            )
        )
    return pd.DataFrame(found, columns=list(COLUMNS))


def depends_on(group: pd.DataFrame, key: str, varied: list[str]) -> bool:
    """Whether two settings that differ in ``key`` alone got different labels."""
    others = [k for k in varied if k != key]
    if not others:
        return bool(group["taxonomy"].nunique() > 1)
    return bool((group.groupby(others, dropna=False)["taxonomy"].nunique() > 1).any())
