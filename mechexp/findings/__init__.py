"""Findings: effects, nulls and labels, as pure functions on numbers."""

from mechexp.findings.combine import Finding, combine, effect_class, is_ablation_sensitive, judge
from mechexp.findings.config import TaxonomyConfig
from mechexp.findings.correction import Tested, benjamini_hochberg, sets_to_settle
from mechexp.findings.effects import Effect, additivity, bootstrap_counts, measure_effect, null_deltas
from mechexp.findings.evidence import Evidence, empty_evidence, measure_evidence
from mechexp.findings.labels import FLAGS, LABELS, explain_flag
from mechexp.findings.null import METRICS, NullSummary, summarise_null
from mechexp.findings.taxonomy import Verdict, judge_cell, judge_sweep

__all__ = [
    "FLAGS",
    "LABELS",
    "METRICS",
    "Effect",
    "Evidence",
    "Finding",
    "NullSummary",
    "TaxonomyConfig",
    "Tested",
    "Verdict",
    "additivity",
    "benjamini_hochberg",
    "bootstrap_counts",
    "combine",
    "effect_class",
    "empty_evidence",
    "explain_flag",
    "is_ablation_sensitive",
    "judge",
    "judge_cell",
    "judge_sweep",
    "measure_effect",
    "measure_evidence",
    "null_deltas",
    "sets_to_settle",
    "summarise_null",
]
