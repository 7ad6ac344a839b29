"""The six general classes: where a head looks on random tokens, whatever the task (Xu 2026).

Shapes: P sequences, L layers, H heads, T positions, K classes.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechexp.errors import UserError
from mechexp.screens.batch import CLASSES
from mechexp.screens.inputs import ScreenInputs
from mechexp.screens.registry import Screen, register
from mechexp.screens.scores import ScreenScores

CLAMP = 1e-8  # smallest baseline attention that selectivity divides by
CLASS_THRESHOLD = 30.0  # selectivity at which a head counts as a member of its best class
NO_CLASS = "none"


@dataclass(frozen=True)
class GeneralScreen:
    """Attention and selectivity of every head for the six classes.

    Attributes:
        attention_KLH: Mean attention to each class's positions.
        selectivity_KLH: That, over the mean attention to the baseline positions.
        best_class_LH: Name of the class with the largest selectivity; ``none`` below 30.
        clamped: How many heads' baselines were so small that the clamp decided their selectivity: there it
            is no quantity.
    """

    attention_KLH: NDArray[np.float64]
    selectivity_KLH: NDArray[np.float64]
    best_class_LH: NDArray[np.str_]
    clamped: int


def classify(inputs: ScreenInputs) -> GeneralScreen:
    """Measure the six classes on the random-token batch.

    Raises:
        UserError: ``screen.baseline`` is neither ``random`` nor ``uniform``.
    """
    batch = inputs.batch
    rows_PLHT = inputs.random_rows_PLHT.astype(np.float64)
    length = rows_PLHT.shape[-1]
    n_targets = np.array([batch.targets_PT(name).sum(axis=1)[0] for name in CLASSES])
    attention = np.stack([_mean_attention(rows_PLHT, batch.targets_PT(name)) for name in CLASSES])
    if inputs.cfg.baseline == "random":
        baseline_LH = _mean_attention(rows_PLHT, batch.baseline_PT)
        clamped = int((baseline_LH < CLAMP).sum())
        baseline_KLH = np.broadcast_to(np.maximum(baseline_LH, CLAMP), attention.shape)
    elif (
        inputs.cfg.baseline == "uniform"
    ):  # 1/(T − k), k = positions of the class (ours: k is undefined there)
        baseline_KLH = np.broadcast_to((1.0 / (length - n_targets))[:, None, None], attention.shape)
        clamped = 0
    else:
        raise UserError(f"screen.baseline={inputs.cfg.baseline}", expected="random or uniform")
    selectivity = attention / baseline_KLH
    best = selectivity.argmax(axis=0)
    names = np.array([*CLASSES, NO_CLASS])
    best_class = names[np.where(selectivity.max(axis=0) >= CLASS_THRESHOLD, best, len(CLASSES))]
    return GeneralScreen(attention, selectivity, best_class, clamped)


def _mean_attention(rows_PLHT: NDArray[np.float64], mask_PT: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Mean over sequences of the mean attention a masked position: (L, H)."""
    weights = mask_PT / np.maximum(mask_PT.sum(axis=1, keepdims=True), 1)
    mean: NDArray[np.float64] = np.einsum("plht,pt->lh", rows_PLHT, weights) / len(rows_PLHT)
    return mean


def _class_screen(name: str, threshold: float, *, best_only: bool) -> Screen:
    """The circuit of one class: heads at or above a selectivity, as best class or whatever it is."""
    index = CLASSES.index(name)
    rule = f"selectivity ≥ {threshold:g}" + (f" and best class is {name}" if best_only else "")

    def score(inputs: ScreenInputs) -> ScreenScores:
        general = inputs.general
        selectivity = general.selectivity_KLH[index]
        eligible = selectivity >= threshold
        if best_only:
            eligible &= general.best_class_LH == name
        details: dict[str, Any] = {
            "length": inputs.length,
            "sequences": inputs.cfg.sequences,
            "baseline": inputs.cfg.baseline,
            "clamped_heads": general.clamped,
        }
        return ScreenScores(
            score_LH=selectivity,
            attention_LH=general.attention_KLH[index],
            contrast_LH=np.full_like(selectivity, np.nan),
            eligible_LH=eligible,
            rule=rule,
            pattern_LH=selectivity,
            threshold=threshold,
            default_k=None,
            details=details,
        )

    return Screen(name, score, general=True)


for _name, _threshold, _best_only in (
    ("prev_token", 100.0, True),
    ("induction", 50.0, False),
    ("duplicate_token", CLASS_THRESHOLD, True),
    ("bos", CLASS_THRESHOLD, True),
    ("self", CLASS_THRESHOLD, True),
    ("local", CLASS_THRESHOLD, True),
):
    register(_class_screen(_name, _threshold, best_only=_best_only))
