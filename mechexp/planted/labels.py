"""The label that each screen of a planted model should get, from what its heads were made to do."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mechexp.planted.blueprint import HeadPlan

NOT_CAUSAL = ("correlate", "null")
TRUE_NULLS = ("idle", "null")  # roles whose heads are drawn like the heads that they are compared with
MARGIN = 0.15  # causes closer than this (relative) are drawn again
LEAST_LEFT = 0.5


@dataclass(frozen=True)
class ScreenTruth:
    """What is true of one screen's circuit.

    Attributes:
        role: ``primary``, ``secondary``, ``interferer``, ``constant_interferer`` (pushes against the answer,
            always by the same amount: a mean leaves it in place, so only zeroing shows it), ``correlate``,
            ``repaired``, ``idle`` (like the heads around it, which do little) or ``null`` (like the heads
            around it, which together answer).
        expected: Labels that are right under ``ablation=mean``, the best one first.
        expected_zero: The same under ``ablation=zero``.
        support: What is lost when its heads go, in units of support; direct and through later heads.
        direct: What its heads write to the answer themselves.
        share: ``support`` as a share of the clean model's.
        heads: Its heads, as (layer, head).
    """

    role: str
    expected: tuple[str, ...]
    expected_zero: tuple[str, ...]
    support: float
    direct: float
    share: float
    heads: tuple[tuple[int, int], ...]


def expected_screens(heads: Iterable["HeadPlan"], roles: Mapping[str, str]) -> dict[str, ScreenTruth] | None:
    """Truth by screen; None where labels would be a matter of taste."""
    heads = list(heads)
    own = {s: [h for h in heads if h.pattern == s] for s in roles}
    direct = {s: sum(h.support for h in members) for s, members in own.items()}
    # Later heads find their place by what previous-token heads relay, or read what these relay.
    fed = [s for s in ("induction", "duplicate_token") if roles[s] != "repaired"]
    total = dict(direct)
    if roles["induction"] == "repaired":
        total["induction"] = 0.0
    total["prev_token"] += sum(direct[s] for s in fed)
    clean = sum(h.support for h in heads)
    causes = sorted((t for s, t in total.items() if _is_cause(roles[s])), reverse=True)
    if clean < LEAST_LEFT or any(t <= 0 for t in causes):
        return None
    if len(causes) > 1 and causes[0] - causes[1] < MARGIN * causes[0]:
        return None
    truths = {}
    for s, role in roles.items():
        if _is_cause(role):
            role = "primary" if total[s] == causes[0] else "secondary"
        mean, zero = _labels(role)
        places = tuple((h.layer, h.head) for h in own[s])
        truths[s] = ScreenTruth(role, mean, zero, total[s], direct[s], total[s] / clean, places)
    return truths


def _is_cause(role: str) -> bool:
    return role in ("main", "relay", "secondary")


def _labels(role: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if role in ("primary", "secondary", "interferer"):
        return (role,), (role,)
    if role == "constant_interferer":
        return ("correlate",), ("interferer",)
    if role in ("correlate", "repaired"):
        return ("correlate",), ("correlate",)
    if role == "null":
        return ("null", "correlate"), ("null", "correlate")
    return NOT_CAUSAL, NOT_CAUSAL
