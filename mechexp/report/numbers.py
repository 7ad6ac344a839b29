"""How numbers are shown to people: the same rounding in the terminal, the report and the plots."""

import math
from collections.abc import Mapping

MISSING = "–"
Metrics = Mapping[str, float | None]


def known(value: float | None) -> bool:
    """Whether there is a finite number to show."""
    return value is not None and math.isfinite(value)


def signed(value: float | None, digits: int = 2) -> str:
    """``+0.31``; a true minus sign, "–" where unknown."""
    if value is None or not math.isfinite(value):
        return MISSING
    text = f"{value:+.{digits}f}"
    return text.replace("-", "−") if float(text) else f"{0:.{digits}f}"


def points(value: float | None, digits: int = 1) -> str:
    """A difference of fractions in percentage points."""
    return signed(None if value is None else 100 * value, digits)


def plain_number(value: float | None, digits: int = 2) -> str:
    """``0.31`` or "–"."""
    return f"{value:.{digits}f}".replace("-", "−") if value is not None and math.isfinite(value) else MISSING


def percent(value: float | None, digits: int = 1) -> str:
    """``97.2 %`` of a fraction."""
    shown = plain_number(None if value is None else 100 * value, digits)
    return shown if shown == MISSING else f"{shown} %"


def p_value(value: float | None) -> str:
    """``.010``, ``<.001``."""
    if value is None or not math.isfinite(value):
        return MISSING
    if value < 0.001:
        return "<.001"
    return "1" if value >= 0.9995 else f"{value:.3f}".lstrip("0")


def interval(metrics: Metrics, metric: str, scale: float = 1.0, digits: int = 2) -> str:
    """``[−3.4, −2.8]``, the interval of Δ of ``metric``."""
    low, high = metrics.get(f"delta_{metric}_low"), metrics.get(f"delta_{metric}_high")
    if low is None or high is None:
        return ""
    return f"[{signed(low * scale, digits)}, {signed(high * scale, digits)}]"


def ratio(value: float | None) -> str:
    """Specificity: one digit below 100, none above."""
    if value is None or not math.isfinite(value):
        return MISSING
    return f"{value:.1f}" if value < 99.95 else f"{value:,.0f}"


def null_text(metrics: Metrics, metric: str, scale: float = 1.0, digits: int = 2) -> str:
    """``−0.10 ± 0.15``: mean and sd of the matched-random null."""
    mean, sd = metrics.get(f"null_{metric}_mean"), metrics.get(f"null_{metric}_std")
    if mean is None:
        return MISSING
    spread = f" ± {plain_number(sd * scale, digits)}" if sd is not None else ""
    return f"{signed(mean * scale, digits)}{spread}"


def harm_or_help(metrics: Metrics, metric: str) -> float | None:
    """The p-value on the side to which Δ points."""
    side = "help" if (metrics.get(f"delta_{metric}") or 0.0) > 0 else "harm"
    return metrics.get(f"p_{side}_{metric}")
