"""Evidence with everything in order for a cause of -40 %, and one thing changed at a time."""

from mechexp.findings import Effect, Evidence, NullSummary
from mechexp.findings.null import floors

NAN = float("nan")


def make(metric="logit_diff", **changes):
    """Evidence in shares of clean = 1, so that top-1 and the logit difference take the same numbers.

    Unless given: interval Δ ± 0.02, a null of mean -0.02 and sd 0.02 over 99 sets, p by the sign of Δ, z and
    specificity from these numbers, and median = mean.
    """
    take = changes.pop
    delta, clean = take("delta", -0.4), take("clean", 1.0)
    half = take("half", 0.02)
    mean, std, sets = take("mean", -0.02), take("std", 0.02), take("sets", 99)
    floor_z, floor_r = floors(metric, clean)
    beyond = 1 / (sets + 1)
    null = NullSummary(
        sets=sets,
        mean=mean,
        std=std,
        min=mean - 2 * std,
        max=mean + 2 * std,
        median=take("median", mean),
        p_harm=take("p_harm", beyond if delta < 0 else 1.0),
        p_help=take("p_help", beyond if delta > 0 else 1.0),
        z=take("z", (delta - mean) / max(std, floor_z)),
        specificity=take("specificity", abs(delta) / max(abs(mean), floor_r, std / max(sets, 1) ** 0.5)),
    )
    excess = delta - mean if sets else NAN
    defaults = {
        "cell": "m · t",
        "screen": "s",
        "heads": ((0, 1), (1, 2)),
        "effect": Effect(
            clean, clean + delta, delta, delta - half, delta + half, excess, excess - half, excess + half
        ),
        "null": NullSummary() if not sets else null,
        "clean_top1": 0.9,
        "clean_frac_correct": 0.95,
        "singles_help": 0.0,
        "bos": 0.0,
        "pattern": 1.0,
        "direct": 0.0,
    }
    return Evidence(metric=metric, **{**defaults, **changes})
