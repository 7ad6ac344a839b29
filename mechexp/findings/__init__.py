"""Findings: effects, nulls and labels, as pure functions on numbers."""

from mechexp.findings.combine import Finding, combine, judge
from mechexp.findings.config import TaxonomyConfig
from mechexp.findings.correction import Tested, benjamini_hochberg, sets_to_settle
from mechexp.findings.effects import Effect, additivity, bootstrap_counts, measure_effect, null_deltas
from mechexp.findings.evidence import Evidence, empty_evidence, measure_evidence
from mechexp.findings.labels import FLAGS, LABELS, explain_flag
from mechexp.findings.null import METRICS, NullSummary, summarise_null
from mechexp.findings.rows import from_row, labels_of, relabel, to_row
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
    "empty_evidence",
    "explain_flag",
    "from_row",
    "judge",
    "judge_cell",
    "judge_sweep",
    "labels_of",
    "measure_effect",
    "measure_evidence",
    "null_deltas",
    "relabel",
    "sets_to_settle",
    "summarise_null",
    "to_row",
]
