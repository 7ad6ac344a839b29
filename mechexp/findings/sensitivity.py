"""Whether an effect stays what it is under other kinds of ablation."""

from mechexp.findings.config import TaxonomyConfig
from mechexp.findings.effects import Effect
from mechexp.findings.evidence import Evidence
from mechexp.findings.null import TIE


def direction(effect: Effect) -> int:
    """Sign of Δ where its interval leaves no doubt (where there is none: of Δ itself), else 0."""
    low, high = effect.delta_low, effect.delta_high
    if low != low:
        low = high = effect.delta
    return int(low > TIE) - int(high < -TIE)


def small_effect(e: Evidence, cfg: TaxonomyConfig) -> float:
    """The most that counts as little or no effect, in units of the metric."""
    return cfg.small_top1 if e.metric == "top1" else cfg.small_logit_diff * abs(e.effect.clean)


def effect_class(e: Evidence, effect: Effect, cfg: TaxonomyConfig) -> str:
    """``harm``, ``help`` or ``little``: what an effect looks like before any null (ours).

    Args:
        e: The screen's evidence, for its metric and clean value.
        effect: Its effect, perhaps under another kind of ablation.
        cfg: Thresholds.
    """
    if abs(effect.delta) <= small_effect(e, cfg) + TIE:
        return "little"
    return {-1: "harm", 1: "help"}.get(direction(effect), "little")


def is_ablation_sensitive(e: Evidence, cfg: TaxonomyConfig) -> bool:
    """Whether the effect is of another class under another kind of ablation.

    Under the other kinds the circuit alone is measured, not its null, so what is compared is the class of the
    effect that the label starts from: harm, help, or little (ours).
    """
    own = effect_class(e, e.effect, cfg)
    return any(effect_class(e, effect, cfg) != own for effect in e.other_kinds.values())
