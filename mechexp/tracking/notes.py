"""Descriptions of MLflow runs in Markdown: the verdict first, then the numbers and why."""

from collections.abc import Mapping
from typing import Any

from mechexp.models.heads import Head, format_heads
from mechexp.tracking.masking import mask


def name_of(choice: str | Mapping[str, Any]) -> str:
    """The name of a control or an ablation, given as text or as its settings."""
    return choice if isinstance(choice, str) else str(choice.get("name", ""))


def _shown(value: Any, digits: int = 3, scale: float = 1.0, sign: bool = False) -> str:
    if value is None:
        return "–"
    return f"{value * scale:{'+' if sign else ''}.{digits}f}"


def cell_note(result: Mapping[str, Any]) -> str:
    """Markdown: what the cell found, one line a screen."""
    model, task, clean = result["model"], result["task"], result["clean"]
    lines = [
        f"**{model['name']}** (`{model['id']}`, {model['n_layers']} layers × {model['n_heads']} heads) on "
        f"**{task['name']}**, {task['n']} prompts, ablation `{name_of(result['ablation'])}`, "
        f"control `{name_of(result['control'])}`.",
        "",
        f"Clean model: top-1 {_shown(clean.get('top1'))}, "
        f"logit difference {_shown(clean.get('logit_diff'), 2)}, "
        f"correct {_shown(clean.get('frac_correct'))}.",
    ]
    if result["status"] == "not_evaluated":
        lines += ["", f"**Not evaluated:** {result.get('reason', '')}"]
    if result["screens"]:
        lines += [
            "",
            "| screen | heads | Δ top-1 (pp) | Δ logit diff | null mean ± sd | p harm | ratio | label "
            "| flags |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        lines += [_note_row(name, row) for name, row in result["screens"].items()]
    notes = [f"- {n}" for n in result.get("notes") or ()]
    return mask("\n".join([*lines, "", *notes]).strip())


def _note_row(name: str, row: Mapping[str, Any]) -> str:
    m = row["metrics"]
    null = f"{_shown(m.get('null_logit_diff_mean'))} ± {_shown(m.get('null_logit_diff_std'))}"
    cells = [
        name, str(row["n_heads"]), _shown(m.get("delta_top1"), 1, 100, sign=True),
        _shown(m.get("delta_logit_diff"), sign=True), null, _shown(m.get("p_harm_logit_diff")),
        _shown(m.get("specificity_logit_diff"), 1), f"**{row['taxonomy']}**", ", ".join(row["flags"]),
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def _headline(m: Mapping[str, Any]) -> list[str]:
    """The verdict's numbers in one line: MLflow's pages show only the start of a description."""
    if m.get("delta_logit_diff") is None:
        return []
    ends = " … ".join(_shown(m.get(f"delta_logit_diff_{side}"), 2) for side in ("low", "high"))
    null = f"{_shown(m.get('null_logit_diff_mean'), 2)} ± {_shown(m.get('null_logit_diff_std'), 2)}"
    side = "harm" if m["delta_logit_diff"] < 0 else "help"
    return [
        f"Δ logit difference **{_shown(m['delta_logit_diff'], 2, sign=True)}** [{ends}], null {null} "
        f"({_shown(m.get('null_sets'), 0)} sets), p {side} {_shown(m.get(f'p_{side}_logit_diff'))}, ratio "
        f"{_shown(m.get('specificity_logit_diff'), 1)}; "
        f"Δ top-1 {_shown(m.get('delta_top1'), 1, 100, True)} pp.",
        "",
    ]


def screen_note(result: Mapping[str, Any], screen: str) -> str:
    """Markdown: the label of one screen, why, and the numbers behind it."""
    row = result["screens"][screen]
    m = row["metrics"]
    lines = [
        f"### {screen}: {row['taxonomy']}",
        *_headline(m),
        f"Heads `{format_heads(Head(*h) for h in row['heads']) or 'none'}` of "
        f"**{result['model']['name']}** on **{result['task']['name']}**; "
        f"by logit difference *{row['taxonomy_logit_diff']}*, by top-1 "
        f"*{row['taxonomy_top1']}*.",
        "",
        "| metric | clean | ablated | Δ | interval | null mean ± sd (sets) | p harm | p help | z | ratio |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for metric in ("logit_diff", "top1"):
        cells = [
            metric, _shown(m.get(f"clean_{metric}")), _shown(m.get(f"ablated_{metric}")),
            _shown(m.get(f"delta_{metric}"), sign=True),
            f"{_shown(m.get(f'delta_{metric}_low'))} … {_shown(m.get(f'delta_{metric}_high'))}",
            f"{_shown(m.get(f'null_{metric}_mean'))} ± {_shown(m.get(f'null_{metric}_std'))} "
            f"({_shown(m.get('null_sets'), 0)})",
            _shown(m.get(f"p_harm_{metric}")), _shown(m.get(f"p_help_{metric}")),
            _shown(m.get(f"z_{metric}"), 2), _shown(m.get(f"specificity_{metric}"), 1),
        ]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    for title, entries in (
        ("Why this label", row.get("rules")),
        ("Flags", row["flags"]),
        ("Notes", row.get("notes")),
    ):
        if entries:
            lines += ["", f"**{title}**", "", *(f"- {e}" for e in entries)]
    return mask("\n".join(lines))
