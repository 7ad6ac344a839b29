"""Conditions of a rule in words: each knows whether it holds, and says so with its numbers."""

from typing import NamedTuple

from mechexp.findings.evidence import Evidence
from mechexp.findings.null import TIE


class Condition(NamedTuple):
    """One condition of a rule.

    Attributes:
        holds: Whether it holds; False where a number is unknown.
        text: The comparison as it came out, with its numbers.
    """

    holds: bool
    text: str


def at_least(name: str, value: float, bound: float, unit: str = "{:.3g}") -> Condition:
    """``value ≥ bound``, with rounding errors on the bound's side."""
    holds = value >= bound - TIE
    return Condition(holds, _compared(name, value, "≥" if holds else "<", bound, unit))


def at_most(name: str, value: float, bound: float, unit: str = "{:.3g}") -> Condition:
    """``value ≤ bound``, with rounding errors on the bound's side."""
    holds = value <= bound + TIE
    return Condition(holds, _compared(name, value, "≤" if holds else ">", bound, unit))


def _compared(name: str, value: float, sign: str, bound: float, unit: str) -> str:
    if value != value:
        return f"{name} is unknown"
    return f"{name} = {unit.format(value)} {sign} {unit.format(bound)}"


def amount(e: Evidence, value: float) -> str:
    """A change of the metric with its unit."""
    if value != value:
        return "unknown"
    if e.metric == "top1":
        return f"{100 * value:+.1f} pp"
    share = e.share_of_clean(value)
    return f"{value:+.3g} logits" + ("" if share != share else f" ({100 * share:+.0f} % of clean)")


def below_zero(e: Evidence) -> Condition:
    """Δ < 0 and its interval too."""
    return _beyond_zero(e, e.effect.delta < 0 and e.effect.delta_high < 0, "below")


def above_zero(e: Evidence) -> Condition:
    """Δ > 0 and its interval too."""
    return _beyond_zero(e, e.effect.delta > 0 and e.effect.delta_low > 0, "above")


def _beyond_zero(e: Evidence, holds: bool, side: str) -> Condition:
    f = e.effect
    if f.delta_low != f.delta_low:
        return Condition(False, f"Δ = {amount(e, f.delta)}, its interval is unknown")
    scale, unit = (100, " pp") if e.metric == "top1" else (1, "")
    interval = f"[{scale * f.delta_low:+.3g}, {scale * f.delta_high:+.3g}]{unit}"
    return Condition(
        holds, f"Δ = {amount(e, f.delta)}, its interval {interval} is {'' if holds else 'not '}{side} 0"
    )


def sentence(lead: str, conditions: list[Condition], *, failing: bool = False) -> str:
    """``lead: condition; condition.`` with all conditions, or only the failing ones."""
    chosen = [c.text for c in conditions if not (failing and c.holds)]
    return f"{lead}: {'; '.join(chosen)}."
