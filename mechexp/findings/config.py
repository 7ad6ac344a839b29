"""Options of the ``taxonomy`` config group: every threshold that a label depends on."""

from dataclasses import dataclass, fields

from mechexp.errors import UserError


@dataclass
class TaxonomyConfig:
    """Thresholds of the five-class taxonomy.

    Shares are fractions (0.1 = 10 %), changes of top-1 likewise (0.1 = 10 percentage points); changes of the
    logit difference are given as a share of the clean logit difference. The five classes and the thresholds
    ``min_specificity``, ``null_specificity``, ``null_z``, ``weak_top1`` are from Xu 2026; the rest is ours.

    Attributes:
        name: Name of this choice of thresholds.
        alpha: Level of the tests against the null (false discovery rate in a sweep).
        min_frac_correct: Least share of prompts with a positive logit difference of a competent model.
        min_top1: Least top-1 of a competent model.
        min_specificity: Least |Δ| as a multiple of the null's, of a cause.
        interferer_specificity: Likewise of an interferer; 0 leaves it to the test alone, which calls too many
            true nulls interferers on models whose circuits are known (docs/ground_truth.md).
        min_z: Least |z| of a cause or an interferer (ours). p alone is too easily small: matched sets share
            heads with each other and none with the circuit, so a circuit of ordinary heads is at the edge of
            its null more often than p says (docs/ground_truth.md).
        null_specificity: Most |Δ| as a multiple of the null's, of a null.
        null_z: |z| under which an effect is a null's.
        singles_help: Least share of an interferer's heads that help when removed alone.
        bos_fraction: Share of BOS-class heads from which an interferer is flagged ``bos_confound``.
        weak_top1: |Δ| of top-1 under which a cause is flagged ``weak``.
        weak_logit_diff: Likewise for the logit difference, as a share of clean.
        small_top1: |Δ| of top-1 that counts as little or no effect.
        small_logit_diff: Likewise for the logit difference, as a share of clean.
        small_sigma: Null standard deviations that also count as little or no effect.
        pattern_share: Least share of heads that show the screen's pattern, of a correlate.
        pattern_attention: Least attention to the screen's target of a head that shows the pattern.
        pattern_score: Least screen score of such a head, for screens that have no threshold of their own.
        saturated: Share of the clean metric under which circuit and median null leave nothing to compare.
        destructive_mean: |mean of the null| as a share of clean from which the null itself is destructive.
        destructive_std_top1: Standard deviation of the null from which it is so, for top-1.
        destructive_std_logit_diff: Likewise for the logit difference, as a share of clean.
        margin_top1: Most |Δ| of top-1 of an effect on the margin only.
        margin_logit_diff: Least |Δ| of the logit difference of such an effect, as a share of clean.
        repaired_direct: Direct effect on the logit difference, as a share of clean, from which a correlate is
            flagged ``repaired``.
        strict_paper: Fold ``indeterminate`` into the nearest of the paper's five classes.
        fold_specificity: Specificity from which ``strict_paper`` folds a sizeable effect into a cause or an
            interferer; the middle of the gap that the paper leaves open.
    """

    name: str = "default"
    alpha: float = 0.05
    min_frac_correct: float = 0.6
    min_top1: float = 0.2
    min_specificity: float = 3.0
    interferer_specificity: float = 3.0
    min_z: float = 3.0
    null_specificity: float = 2.0
    null_z: float = 1.0
    singles_help: float = 0.6
    bos_fraction: float = 0.5
    weak_top1: float = 0.10
    weak_logit_diff: float = 0.20
    small_top1: float = 0.02
    small_logit_diff: float = 0.05
    small_sigma: float = 1.0
    pattern_share: float = 0.5
    pattern_attention: float = 0.1
    pattern_score: float = 2.0
    saturated: float = 0.10
    destructive_mean: float = 0.25
    destructive_std_top1: float = 0.10
    destructive_std_logit_diff: float = 0.25
    margin_top1: float = 0.02
    margin_logit_diff: float = 0.20
    repaired_direct: float = 0.20
    strict_paper: bool = False
    fold_specificity: float = 2.5

    def check(self) -> None:
        """Refuse thresholds that make no sense.

        Raises:
            UserError: A negative threshold, a level outside 0 … 1, or specificities out of order.
        """
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, float) and not 0 <= value < float("inf"):
                raise UserError(
                    f"{value} is no threshold", where=f"taxonomy.{field.name}", expected="0 or more"
                )
        if not 0 < self.alpha < 1:
            raise UserError(
                f"{self.alpha} is no level of a test", where="taxonomy.alpha", expected="between 0 and 1"
            )
        if not self.null_specificity <= self.fold_specificity <= self.min_specificity:
            raise UserError(
                "the specificities are out of order",
                where="taxonomy",
                expected="null_specificity ≤ fold_specificity ≤ min_specificity",
            )
