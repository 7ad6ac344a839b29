"""A screen of your own: heads that look from the end of the prompt to the position named `first`.

Run: mechexp --config-dir examples task=echo screen=to_first
"""

import numpy as np

from mechexp.screens.registry import Screen, register
from mechexp.screens.scores import ScreenScores


def to_first(inputs) -> ScreenScores:
    attention = inputs.attention_to_LH("first")  # mean over the screen half's prompts: layers × heads
    elsewhere = inputs.attention_elsewhere_LH(but=("first",))
    score = attention / np.maximum(elsewhere, 1e-6)
    return ScreenScores(
        score_LH=score,  # heads are ranked by it
        attention_LH=attention,
        contrast_LH=np.full_like(score, np.nan),  # no wrong position to compare with
        eligible_LH=attention >= 0.1,  # the heads that may be picked
        rule="a(end→first) ≥ 0.1",
        pattern_LH=score,  # must reach taxonomy.pattern_score where a head shows the pattern
    )


register(Screen("to_first", to_first))
