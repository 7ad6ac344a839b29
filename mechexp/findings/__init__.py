"""Findings: effects, nulls and labels, as pure functions on numbers.

Each public name is imported when it is first asked for, so that configs compose fast.
"""

from typing import TYPE_CHECKING, Any

from mechexp.findings.config import TaxonomyConfig

if TYPE_CHECKING:
    from mechexp.findings.combine import Finding, combine, judge
    from mechexp.findings.correction import Tested, benjamini_hochberg, sets_to_settle
    from mechexp.findings.effects import Effect, additivity, bootstrap_counts, measure_effect, null_deltas
    from mechexp.findings.evidence import Evidence, empty_evidence, measure_evidence
    from mechexp.findings.labels import FLAGS, LABELS, explain_flag
    from mechexp.findings.null import METRICS, NullSummary, summarise_null
    from mechexp.findings.rows import from_row, labels_of, relabel, to_row
    from mechexp.findings.taxonomy import Verdict, judge_cell, judge_sweep

_HOMES = {
    "combine": ("Finding", "combine", "judge"),
    "correction": ("Tested", "benjamini_hochberg", "sets_to_settle"),
    "effects": ("Effect", "additivity", "bootstrap_counts", "measure_effect", "null_deltas"),
    "evidence": ("Evidence", "empty_evidence", "measure_evidence"),
    "labels": ("FLAGS", "LABELS", "explain_flag"),
    "null": ("METRICS", "NullSummary", "summarise_null"),
    "rows": ("from_row", "labels_of", "relabel", "to_row"),
    "taxonomy": ("Verdict", "judge_cell", "judge_sweep"),
}

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


def __getattr__(name: str) -> Any:
    """Import a public name from its module on first use."""
    from importlib import import_module

    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"mechexp.findings.{module}"), name)
    raise AttributeError(f"module 'mechexp.findings' has no attribute {name!r}")
