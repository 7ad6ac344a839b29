"""From labelled cases to rates with intervals: confusion, recall, precision, false positives, p, coverage."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from mechexp.calibrate.verdicts import CAUSAL, Case
from mechexp.findings.labels import LABELS

# A planted effect is of clear strength from this share of the clean model's logit difference, if it also is
# so many standard deviations of what as many ordinary heads of that model do.
CLEAR, STANDS_OUT = 0.2, 5.0
TRUE_NULLS = ("idle", "null")
CLASSES = ("primary", "secondary", "interferer", "correlate", "null")
ROLES = ("primary", "secondary", "interferer", "constant_interferer", "correlate", "repaired", "idle", "null")
STRENGTHS = (0.0, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)


@dataclass(frozen=True)
class Rate:
    """A share with its exact 95 % interval (Clopper and Pearson 1934).

    Attributes:
        hits: How many.
        of: Of how many.
        rate: The share; NaN of none.
        low: Lower end.
        high: Upper end.
    """

    hits: int
    of: int
    rate: float
    low: float
    high: float


def rate(holds: Iterable[bool]) -> Rate:
    """Share of cases in which something holds."""
    from statsmodels.stats.proportion import proportion_confint

    values = [bool(h) for h in holds]
    hits, n = sum(values), len(values)
    if not n:
        return Rate(0, 0, float("nan"), float("nan"), float("nan"))
    low, high = proportion_confint(hits, n, method="beta")
    return Rate(hits, n, hits / n, float(low), float(high))


def is_clear(case: Case) -> bool:
    """Whether a case's planted effect is of clear strength; what has none by construction always is."""
    if case.role not in ("primary", "secondary", "interferer"):
        return True
    return abs(case.share) >= CLEAR and case.stands_out >= STANDS_OUT


def confusion(cases: Sequence[Case]) -> dict[str, dict[str, int]]:
    """How often each role got each label."""
    table = Counter((c.role, c.label) for c in cases)
    return {r: {label: table[r, label] for label in LABELS} for r in ROLES if any(c.role == r for c in cases)}


def recall(cases: Sequence[Case]) -> dict[str, Rate]:
    """Of the circuits that should get a label (as the best one), how many got a right one."""
    return {k: rate(c.right for c in cases if c.expected[0] == k) for k in CLASSES}


def recall_by_role(cases: Sequence[Case]) -> dict[str, Rate]:
    """The same by role."""
    return {r: rate(c.right for c in cases if c.role == r) for r in ROLES}


def precision(cases: Sequence[Case]) -> dict[str, Rate]:
    """Of the circuits that got a label, how many should have."""
    return {k: rate(c.right for c in cases if c.label == k) for k in CLASSES}


def false_positives(cases: Sequence[Case]) -> dict[str, Rate]:
    """Causal labels among true nulls: any, each, and by role."""
    nulls = [c for c in cases if c.role in TRUE_NULLS]
    out = {"any": rate(c.label in CAUSAL for c in nulls)}
    out |= {label: rate(c.label == label for c in nulls) for label in CAUSAL}
    out["cause"] = rate(c.label in ("primary", "secondary") for c in nulls)
    return out | {f"any_{r}": rate(c.label in CAUSAL for c in nulls if c.role == r) for r in TRUE_NULLS}


def by_strength(cases: Sequence[Case], role: str) -> list[dict[str, Any]]:
    """Recall of one role by its share of the clean logit difference."""
    rows = []
    for low, high in pairwise(STRENGTHS):
        within = [c for c in cases if c.role == role and low <= abs(c.share) < high]
        found = asdict(rate(c.right for c in within))
        found |= {"low_ci": found.pop("low"), "high_ci": found.pop("high")}
        rows.append({"low": low, "high": high, **found})
    return rows


def p_values(cases: Sequence[Case]) -> dict[str, list[float]]:
    """P of both directions of the true nulls, sorted."""
    nulls = [c for c in cases if c.role in TRUE_NULLS and c.p_harm == c.p_harm]
    return {"harm": sorted(c.p_harm for c in nulls), "help": sorted(c.p_help for c in nulls)}


def p_calibration(cases: Sequence[Case], sets: int) -> dict[str, Any]:
    """Whether p is uniform under a true null: KS test against the uniform, and the share at or under .05.

    Args:
        cases: Labelled cases.
        sets: Smallest number of sets that p rests on: p is discrete in steps of 1/(sets + 1), which the KS
            statistic of even a perfect p cannot go below; reported as ``step``.
    """
    from scipy import stats

    out: dict[str, Any] = {}
    for direction, p in p_values(cases).items():
        if p:
            test = stats.kstest(p, "uniform")
            out[direction] = {
                "n": len(p),
                "ks": float(test.statistic),
                "ks_p": float(test.pvalue),
                "step": 1 / (sets + 1),
                "at_or_under_05": asdict(rate(x <= 0.05 + 1e-9 for x in p)),
            }
    return out


def coverage(rows: Iterable[Mapping[str, Any]], setting: str = "default") -> dict[str, Rate]:
    """How often the 95 % interval of Δ holds the Δ of many fresh prompts of the same model.

    Circuits that change nothing at all (Δ exactly 0 on every prompt) have no interval to speak of and are
    left out.
    """
    hits: dict[str, list[bool]] = {"top1": [], "logit_diff": []}
    for row in rows:
        for screen, truth in row["population"].items():
            m = row["runs"][setting]["screens"][screen]["metrics"]
            for metric, inside in hits.items():
                low, high = m.get(f"delta_{metric}_low"), m.get(f"delta_{metric}_high")
                if low is not None and high - low > 1e-4:
                    inside.append(bool(low <= truth[metric] <= high))
    return {metric: rate(inside) for metric, inside in hits.items()}


def sets_needed(rows: Iterable[Mapping[str, Any]]) -> int:
    """Fewest matched sets of any circuit of these models."""
    counts = [
        len(s["null"]["heads"])
        for row in rows
        for s in row["runs"]["default"]["screens"].values()
        if s["null"]["heads"]
    ]
    return int(np.min(counts)) if counts else 0
