"""What a screen yields and how heads are picked from it.

Shapes: L layers, H heads.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechexp.errors import UserError
from mechexp.models.heads import Head

Scores = NDArray[np.float64]


@dataclass(frozen=True)
class ScreenScores:
    """One screen's numbers for every head of the model.

    Attributes:
        score_LH: What heads are ranked by.
        attention_LH: Mean attention to the screen's target position.
        contrast_LH: Mean attention to the target − to the distractor position; NaN where there is none.
        eligible_LH: Heads that the screen's own rule admits.
        rule: That rule in words, with its thresholds.
        pattern_LH: The number that must reach ``threshold`` for the pattern to be present.
        threshold: The screen's threshold, or None where it only ranks.
        default_k: Heads picked by default; None = every eligible head.
        details: Clamps hit, sequence length …
    """

    score_LH: Scores
    attention_LH: Scores
    contrast_LH: Scores
    eligible_LH: NDArray[np.bool_]
    rule: str
    pattern_LH: Scores
    threshold: float | None = None
    default_k: int | None = 5
    details: dict[str, Any] = field(default_factory=dict)

    def present_LH(self, attention: float, score: float) -> NDArray[np.bool_]:
        """Heads that show the pattern.

        Args:
            attention: Least attention to the target (``taxonomy.pattern_attention``).
            score: Least score where the screen has no threshold of its own (``taxonomy.pattern_score``).
        """
        threshold = score if self.threshold is None else self.threshold
        present: NDArray[np.bool_] = (self.attention_LH >= attention) & (self.pattern_LH >= threshold)
        return present


def pick(
    scores: ScreenScores, *, select: str, k: int, allowed_LH: NDArray[np.bool_] | None = None
) -> tuple[tuple[Head, ...], str]:
    """Choose a circuit's heads, best first.

    Args:
        scores: The screen's numbers.
        select: ``threshold`` (the screen's own rule; ``k`` caps it), ``top_k`` (the k best of all heads) or
            ``auto`` (``top_k`` where k is given, else the screen's own rule).
        k: Number of heads; 0 = the screen's default.
        allowed_LH: Heads that may be picked at all; None = all.

    Returns:
        The heads and the rule that picked them, in words. Ties go to the lower layer and head.

    Raises:
        UserError: ``k`` is negative or larger than the model, ``select`` unknown, or ``top_k`` without a k.
    """
    n = scores.score_LH.size
    if select not in ("auto", "threshold", "top_k"):
        raise UserError(f"screen.select={select}", expected="auto, threshold or top_k")
    if not 0 <= k <= n:
        raise UserError(f"screen.k={k}", expected=f"a number of heads from 1 to {n} (the whole model), or 0")
    top_k = select == "top_k" or (select == "auto" and k > 0)
    limit = k or scores.default_k
    if top_k and limit is None:
        raise UserError("screen.select=top_k without screen.k", todo="say how many heads: screen.k=5")
    eligible = np.ones_like(scores.eligible_LH) if top_k else scores.eligible_LH
    if allowed_LH is not None:
        eligible = eligible & allowed_LH
    order = np.argsort(-scores.score_LH, axis=None, kind="stable")
    layers, heads = np.unravel_index(order, scores.score_LH.shape)
    picked = [Head(int(l), int(h)) for l, h in zip(layers, heads, strict=True) if eligible[l, h]]
    rule = f"top {limit} of all heads by score" if top_k else scores.rule
    if not top_k and limit is not None:
        rule += f", top {limit} by score"
    return tuple(picked[:limit]), rule
