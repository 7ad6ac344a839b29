"""The difference of two estimates that each come with an interval of their own."""

from math import hypot

NAN = float("nan")
Estimate = tuple[float, float, float]  # value, lower end, upper end


def difference(a: Estimate, b: Estimate) -> Estimate:
    """A − b with its interval, for independent estimates (MOVER; Zou and Donner 2008).

    Takes the distances of each estimate from its own ends, so skewed intervals stay skewed. The level is that
    of the two intervals.
    """
    (x, x_low, x_high), (y, y_low, y_high) = a, b
    d = x - y
    return d, d - hypot(x - x_low, y_high - y), d + hypot(x_high - x, y - y_low)


def equivalence(low: float, high: float, margin: float) -> str:
    """``yes`` if the interval lies within ± ``margin``, ``no`` if wholly outside, else ``undecided``."""
    if low >= -margin and high <= margin:
        return "yes"
    if low > margin or high < -margin:
        return "no"
    return "undecided"
