"""The task screens: where heads look from the end position of a task's own prompts (Xu 2026).

Every attention here is a mean over the prompts of the screen half. Shapes: L layers, H heads.
"""

import numpy as np
from numpy.typing import NDArray

from mechexp.screens.inputs import ScreenInputs
from mechexp.screens.registry import Screen, register
from mechexp.screens.scores import ScreenScores

CLAMP = 1e-6

Heads = NDArray[np.float64]


def _ranked(score: Heads, attention: Heads, contrast: Heads, denominator: Heads, rule: str) -> ScreenScores:
    """A screen that ranks heads by a ratio of attentions and takes the best five."""
    return ScreenScores(
        score_LH=score,
        attention_LH=attention,
        contrast_LH=contrast,
        eligible_LH=np.ones(score.shape, dtype=bool),
        rule=rule,
        pattern_LH=score,
        details={"clamped_heads": int((denominator < CLAMP).sum())},
    )


def name_mover(inputs: ScreenInputs) -> ScreenScores:
    """Attention to the indirect object over attention to the more attended subject token."""
    io = inputs.attention_to_LH("io")
    subject = np.maximum(inputs.attention_to_LH("s1"), inputs.attention_to_LH("s2"))
    ratio = io / np.maximum(subject, CLAMP)
    return _ranked(ratio, io, io - subject, subject, "a(end→io) / a(end→subject)")


def s_inhibition(inputs: ScreenInputs) -> ScreenScores:
    """Attention to the subject, where it is at least twice that to the indirect object."""
    io = inputs.attention_to_LH("io")
    subject = np.maximum(inputs.attention_to_LH("s1"), inputs.attention_to_LH("s2"))
    ratio = subject / np.maximum(io, CLAMP)
    return ScreenScores(
        score_LH=subject,
        attention_LH=subject,
        contrast_LH=subject - io,
        eligible_LH=(ratio >= 2.0) & (subject >= 0.1),
        rule="a(end→subject) ≥ 0.1 and ≥ 2 × a(end→io)",
        pattern_LH=ratio,
        threshold=2.0,
        details={"clamped_heads": int((io < CLAMP).sum())},
    )


def gt_specific(inputs: ScreenInputs) -> ScreenScores:
    """Attention to the start year over the mean attention to the other positions."""
    year = inputs.attention_to_LH("start_year")
    rest = inputs.attention_elsewhere_LH(but=("start_year",))
    return _ranked(
        year / np.maximum(rest, CLAMP), year, _nan(year), rest, "a(end→start_year) / a(end→elsewhere)"
    )


def successor(inputs: ScreenInputs) -> ScreenScores:
    """Attention to the last item over the mean to the others but the previous token.

    With a space between items the end *is* the last item, and this is a(end→end) as published; with
    another separator the end is that separator and the last item stands before it.
    """
    items = [name for name in inputs.prompts.positions[0] if name.startswith("item_")]
    last = max(items, key=lambda name: int(name.removeprefix("item_")), default="item_1")
    here = inputs.attention_to_LH(last)
    rest = inputs.attention_elsewhere_LH(but=(last,), also_not_previous=True)
    return _ranked(
        here / np.maximum(rest, CLAMP), here, _nan(here), rest, "a(end→last item) / a(end→elsewhere)"
    )


def vb_specific(inputs: ScreenInputs) -> ScreenScores:
    """Attention to the bound city over the mean to positions that are neither city nor the queried name."""
    bound, other = inputs.attention_to_LH("bound"), inputs.attention_to_LH("other")
    rest = inputs.attention_elsewhere_LH(but=("bound", "other", "query_name"))
    return _ranked(
        bound / np.maximum(rest, CLAMP), bound, bound - other, rest, "a(end→bound) / a(end→elsewhere)"
    )


def _nan(like: Heads) -> Heads:
    """No contrast: these tasks have no distractor position."""
    return np.full_like(like, np.nan)


for _screen in (name_mover, s_inhibition, gt_specific, successor, vb_specific):
    register(Screen(_screen.__name__, _screen))
