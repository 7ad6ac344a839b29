"""Self-repair: how much of what heads write directly do later layers make up for when the heads are removed.

Shapes: P prompt, B bootstrap resample.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mechexp.findings.effects import Floats, mean_interval

NAN = float("nan")
LEAST_DIRECT = 0.05


@dataclass(frozen=True)
class SelfRepair:
    """Direct against total effect of removing heads at the end position, on the logit difference.

    Attributes:
        direct: Change expected from taking away the heads' own write, with all later layers and the scale of
            the final norm held fixed.
        total: Change measured.
        repair: total − direct: what later layers and the norm's scale added; of the opposite sign to
            ``direct`` where they make up for the loss.
        repair_low: Lower end of its paired bootstrap interval.
        repair_high: Upper end.
        share: Share of the direct effect that was made up for, 1 − total / direct; NaN where the direct
            effect is under 5 % of the clean logit difference (ours): there is little that could be repaired.
    """

    direct: float
    total: float
    repair: float
    repair_low: float = NAN
    repair_high: float = NAN
    share: float = NAN


def self_repair(
    clean_P: ArrayLike, ablated_P: ArrayLike, written_P: ArrayLike, counts_BP: Floats, level: float = 0.95
) -> SelfRepair:
    """Compare direct and total effect (after McGrath et al. 2023, Rushing and Nanda 2024).

    Args:
        clean_P: Clean logit difference of each prompt.
        ablated_P: The same with the heads' z set to zero at the end position.
        written_P: Their summed direct logit attribution in the clean run.
        counts_BP: From ``bootstrap_counts``.
        level: Confidence level.
    """
    clean, ablated, written = (np.asarray(a, dtype=np.float64) for a in (clean_P, ablated_P, written_P))
    repair_P = (ablated - clean) + written
    low, high = mean_interval(repair_P, counts_BP, level)
    direct, total = -float(written.mean()), float((ablated - clean).mean())
    sizeable = abs(direct) > LEAST_DIRECT * abs(float(clean.mean()))
    share = 1 - total / direct if sizeable else NAN
    return SelfRepair(direct, total, total - direct, float(low[0]), float(high[0]), share)
