"""One screen as a row of ``result.json``, and back: labels can be given anew from stored numbers alone."""

from collections.abc import Iterable, Mapping
from typing import Any

from mechexp.errors import UserError
from mechexp.findings.combine import Finding, judge
from mechexp.findings.config import TaxonomyConfig
from mechexp.findings.effects import Effect
from mechexp.findings.evidence import Evidence
from mechexp.findings.null import METRICS, NullSummary

NAN = float("nan")

Row = Mapping[str, Any]


def to_row(e_top1: Evidence, e_logit_diff: Evidence, finding: Finding) -> dict[str, Any]:
    """One screen as JSON holds it.

    Returns:
        ``heads``, ``n_heads``, the flat ``metrics`` (unknown ones left out), labels, ``flags``, ``rules`` and
        ``evidence``: what the labels rest on beyond the metrics.
    """
    return {
        "heads": [list(h) for h in e_top1.heads],
        "n_heads": e_top1.n_heads,
        "metrics": {**_metrics(e_top1), **_metrics(e_logit_diff)},
        **labels_of(finding),
        "rules": list(finding.rules),
        "evidence": _extra(e_top1, e_logit_diff),
    }


def labels_of(finding: Finding) -> dict[str, Any]:
    """The labels of a screen under their names in ``result.json``."""
    return {
        "taxonomy": finding.label,
        "taxonomy_top1": finding.taxonomy_top1,
        "taxonomy_logit_diff": finding.taxonomy_logit_diff,
        "flags": list(finding.flags),
    }


def from_row(cell: str, screen: str, row: Row) -> tuple[Evidence, Evidence]:
    """Evidence on top-1 and on the logit difference of a stored screen.

    Raises:
        UserError: The row lacks a field, or holds something that is no number.
    """
    try:
        top1, logit_diff = (_evidence(cell, screen, metric, row) for metric in METRICS)
        return top1, logit_diff
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(
            f"cannot read the numbers of screen {screen!r} ({type(error).__name__}: {error})",
            where=f"cell {cell}",
            todo="run the job again",
        ) from error


def relabel(
    rows: Iterable[tuple[str, str, Row]], cfg: TaxonomyConfig, *, joint: bool = True
) -> list[Finding]:
    """Label stored screens anew.

    Args:
        rows: (cell, screen, row of ``result.json``) of each.
        cfg: Thresholds.
        joint: Test the cells jointly, as one sweep.

    Returns:
        One finding a row, in their order.
    """
    evidence = [e for cell, screen, row in rows for e in from_row(cell, screen, row)]
    return judge(evidence, cfg, joint=joint)


def _metrics(e: Evidence) -> dict[str, float]:
    m, effect, null = e.metric, e.effect, e.null
    values = {
        f"clean_{m}": effect.clean,
        f"ablated_{m}": effect.ablated,
        f"delta_{m}": effect.delta,
        f"delta_{m}_low": effect.delta_low,
        f"delta_{m}_high": effect.delta_high,
        f"null_{m}_mean": null.mean,
        f"null_{m}_std": null.std,
        f"null_{m}_min": null.min,
        f"null_{m}_max": null.max,
        "null_sets": null.sets,
        f"p_harm_{m}": null.p_harm,
        f"p_help_{m}": null.p_help,
        f"z_{m}": null.z,
        f"specificity_{m}": null.specificity,
    }
    return {name: value for name, value in values.items() if value == value}


def _extra(e_top1: Evidence, e_logit_diff: Evidence) -> dict[str, Any]:
    e = e_logit_diff
    return {
        "clean_frac_correct": _json(e.clean_frac_correct),
        "bos": _json(e.bos),
        "pattern": _json(e.pattern),
        "direct": _json(e.direct),
        "control": e.control,
        "null_total": e.null_total,
        "null_short": e.null_short,
        **{x.metric: _extra_of_metric(x) for x in (e_top1, e_logit_diff)},
    }


def _extra_of_metric(e: Evidence) -> dict[str, Any]:
    return {
        "excess": _json(e.effect.excess),
        "excess_low": _json(e.effect.excess_low),
        "excess_high": _json(e.effect.excess_high),
        "null_median": _json(e.null.median),
        "singles_help": _json(e.singles_help),
        "other_kinds": {
            kind: [_json(x) for x in (f.clean, f.ablated, f.delta, f.delta_low, f.delta_high)]
            for kind, f in e.other_kinds.items()
        },
    }


def _evidence(cell: str, screen: str, metric: str, row: Row) -> Evidence:
    m, extra, own = row["metrics"], row["evidence"], row["evidence"][metric]
    return Evidence(
        cell=cell,
        screen=screen,
        metric=metric,
        heads=tuple((int(layer), int(head)) for layer, head in row["heads"]),
        effect=_effect(metric, m, own),
        null=_null(metric, m, own),
        clean_top1=_number(m, "clean_top1"),
        clean_frac_correct=_number(extra, "clean_frac_correct"),
        singles_help=_number(own, "singles_help"),
        bos=_number(extra, "bos"),
        pattern=_number(extra, "pattern"),
        direct=_number(extra, "direct"),
        control=str(extra["control"]),
        null_total=int(extra["null_total"]),
        null_short=int(extra["null_short"]),
        other_kinds={str(k): Effect(*(_read(x) for x in v)) for k, v in own["other_kinds"].items()},
    )


def _effect(metric: str, m: Row, own: Row) -> Effect:
    return Effect(
        clean=_number(m, f"clean_{metric}"),
        ablated=_number(m, f"ablated_{metric}"),
        delta=_number(m, f"delta_{metric}"),
        delta_low=_number(m, f"delta_{metric}_low"),
        delta_high=_number(m, f"delta_{metric}_high"),
        **{name: _number(own, name) for name in ("excess", "excess_low", "excess_high")},
    )


def _null(metric: str, m: Row, own: Row) -> NullSummary:
    return NullSummary(
        sets=int(m.get("null_sets") or 0),
        median=_number(own, "null_median"),
        **{name: _number(m, f"null_{metric}_{name}") for name in ("mean", "std", "min", "max")},
        **{name: _number(m, f"{name}_{metric}") for name in ("p_harm", "p_help", "z", "specificity")},
    )


def _number(row: Row, name: str) -> float:
    return _read(row.get(name))


def _read(value: Any) -> float:
    return NAN if value is None else float(value)


def _json(value: float) -> float | None:
    """JSON knows no NaN."""
    return None if value != value else float(value)
