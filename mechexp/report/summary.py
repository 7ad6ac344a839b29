"""What a cell found, in a few sentences that need no knowledge of the labels; from ``result.json`` alone."""

from collections.abc import Mapping
from typing import Any

from mechexp.models.heads import Head, format_heads
from mechexp.report.numbers import harm_or_help, interval, null_text, p_value, plain_number, signed

CAUSES = ("primary", "secondary")
NAMED = 6  # heads spelled out in a sentence


def summary(result: Mapping[str, Any]) -> list[str]:
    """The finding of a cell: its causes with their numbers, then what the other screens came to."""
    screens = result["screens"]
    if result["status"] != "complete" or not screens:
        return []
    by_label: dict[str, list[str]] = {}
    for name, row in screens.items():
        by_label.setdefault(row["taxonomy"], []).append(name)
    model, task = result["model"]["name"], result["task"]["name"]
    sentences = [
        _cause(name, screens[name], model, task) for label in CAUSES for name in by_label.get(label, ())
    ]
    if not sentences:
        undecided = by_label.get("indeterminate", [])
        why = f" ({', '.join(undecided)}: not settled, the rules below say why)" if undecided else ""
        sentences = [f"None of these screens was shown to pick heads that {task} depends on in {model}{why}."]
    sentences += [_effect_of(name, screens[name]) for name in by_label.get("interferer", ())]
    rest = [
        f"{label}: {', '.join(names)}"
        for label, names in by_label.items()
        if label not in (*CAUSES, "interferer") and (label != "indeterminate" or len(sentences) > 1)
    ]
    return [*sentences, *([f"{'; '.join(rest)}."] if rest else [])]


def _cause(name: str, row: Mapping[str, Any], model: str, task: str) -> str:
    kind = "is the primary cause" if row["taxonomy"] == "primary" else "is a secondary cause"
    return f"{name} {kind} of {task} in {model}: {_numbers(row)}"


def _effect_of(name: str, row: Mapping[str, Any]) -> str:
    return f"{name} is an interferer, the task gets easier without it: {_numbers(row)}"


def _numbers(row: Mapping[str, Any]) -> str:
    m = row["metrics"]
    heads = [Head(*h) for h in row["heads"]]
    more = f" and {len(heads) - NAMED} more" if len(heads) > NAMED else ""
    named = format_heads(heads[:NAMED]).replace(",", ", ")
    clean, ablated = (plain_number(m.get(f"{when}_logit_diff")) for when in ("clean", "ablated"))
    delta = f"Δ {signed(m.get('delta_logit_diff'))} {interval(m, 'logit_diff')}"
    sets, null = plain_number(m.get("null_sets"), 0), null_text(m, "logit_diff")
    return (
        f"removing {named}{more} takes the logit difference from {clean} to {ablated} ({delta}), while "
        f"{sets} sets of random heads of the same layers move it by {null} "
        f"(p {p_value(harm_or_help(m, 'logit_diff'))})."
    )
