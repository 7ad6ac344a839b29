"""``report.html`` of a cell: one self-contained page, made from the result files alone.

The page asks for nothing from the network (a content-security policy forbids it) and its tables need no
JavaScript. Everything that comes from prompts, names or notes is escaped.
"""

import base64
import json
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd

from mechexp.findings.labels import FLAGS, LABELS, explain_flag
from mechexp.report import attention, headmap, numbers
from mechexp.report.plots import LABEL_COLOURS, save_plots
from mechexp.report.rows import rows_of
from mechexp.report.summary import summary
from mechexp.tracking.files import write_text
from mechexp.tracking.results import REPORT, CellFiles, read_cell

PROMPTS_SHOWN = 6
HEAD_COLUMNS = {
    "best_class": "class",
    "single_delta_logit_diff": "Δ logit diff, alone",
    "single_delta_top1": "Δ top-1, alone",
    "direct_logit_attribution": "direct logits",
    "ov_copy": "OV copy",
    "spectral_rank": "spectral rank",
}


def render_cell(files: CellFiles) -> Path:
    """Draw the plots of a cell and write its ``report.html``; the hook for ``write_cell(before_commit=…)``.

    Args:
        files: The cell's result files.

    Returns:
        The page.
    """
    save_plots(files)
    path = files.folder / REPORT
    write_text(path, cell_page(files))
    return path


def render_folder(folder: Path) -> Path:
    """Make plots and report of a finished cell anew."""
    return render_cell(read_cell(folder))


def cell_page(files: CellFiles) -> str:
    """The page of a cell as text; plots are taken from its ``plots/`` folder."""
    result = files.result
    page: str = (
        environment()
        .get_template("cell.html")
        .render(
            result=result,
            model=result["model"],
            task=result["task"],
            summary=summary(result),
            rows=[(row, "", "") for row in rows_of(result)],
            screens=[_screen(files, name, row) for name, row in files.screens.items()],
            effects=_image(files.folder / "plots" / "effects.png"),
            maps=[
                ("Attention class", headmap.class_map(files.heads, files.screens)),
                ("Effect of removing the head alone", headmap.single_map(files.heads, files.screens)),
            ],
            class_colours=headmap.classes_shown(files.heads),
            explorer=attention.explorer(files),
            overlap=overlap(files.screens),
            extra=_extra(files),
            prompts=[_prompt(p) for p in _sample(files.prompts)],
            n_prompts=len(files.prompts),
            config=files.config,
            rerun=rerun_command(result),
            rerun_is_whole=isinstance(result.get("overrides"), list),
        )
    )
    return page


def environment() -> Any:
    """The jinja2 environment: autoescape on for every template, unknown names are errors."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    env = Environment(
        loader=PackageLoader("mechexp.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    names = (
        "signed",
        "points",
        "plain_number",
        "percent",
        "p_value",
        "interval",
        "ratio",
        "null_text",
        "harm_or_help",
    )
    env.filters |= {name: getattr(numbers, name) for name in names}
    env.filters |= {"explain": explain, "colour": lambda label: LABEL_COLOURS.get(label, "#222222")}
    return env


def explain(name: str) -> str:
    """The sentence for a label or a flag; "" for one that is not known (files of another version)."""
    if name in LABELS:
        return LABELS[name]
    return explain_flag(name) if name.removesuffix("_top1") in FLAGS else ""


def _image(path: Path) -> str:
    """A plot as a data address; "" where there is none."""
    if not path.is_file():
        return ""
    return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode("ascii")


def _screen(files: CellFiles, name: str, row: Mapping[str, Any]) -> dict[str, Any]:
    picked = pd.DataFrame(row["heads"], columns=["layer", "head"])
    wanted = {f"{name}_{part}": part for part in ("score", "attention", "contrast")} | HEAD_COLUMNS
    shown = {c: title for c, title in wanted.items() if c in files.heads and files.heads[c].notna().any()}
    table = picked.merge(files.heads, on=["layer", "head"], how="left")
    table = table[["layer", "head", *shown]].rename(columns=shown)
    plots = files.folder / "plots"
    return {
        **row,
        "name": name,
        "columns": [c for c in table.columns if c not in ("layer", "head")],
        "table": [
            {"name": f"L{r['layer']}H{r['head']}", **{c: _cell(v) for c, v in r.items()}}
            for r in table.to_dict("records")
        ],
        "kinds": _kinds(files, name),
        "strips": attention.strips(files, name),
        "null": _image(plots / f"null__{name}.png"),
        "singles": _image(plots / f"singles__{name}.png"),
        "head_count": _image(plots / f"head_count__{name}.png"),
        "diagnostics": row.get("diagnostics") or {},
        "rules": row.get("rules") or [],
        "notes": row.get("notes") or [],
        "evidence": json.dumps(row.get("evidence") or {}, indent=1, ensure_ascii=False),
    }


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}" if numbers.known(value) else numbers.MISSING
    return numbers.MISSING if value is None else str(value)


def overlap(screens: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Pairs of screens that share heads: two screens that pick the same heads are one finding."""
    heads = {name: {tuple(h) for h in row["heads"]} for name, row in screens.items()}
    return [
        {
            "a": a,
            "b": b,
            "shared": ", ".join(f"L{x}H{y}" for x, y in sorted(heads[a] & heads[b])),
            "jaccard": len(heads[a] & heads[b]) / len(heads[a] | heads[b]),
        }
        for a, b in combinations(heads, 2)
        if heads[a] & heads[b]
    ]


def _kinds(files: CellFiles, screen: str) -> list[dict[str, Any]]:
    """Δ of a circuit under every kind of ablation it was measured with, the cell's own first."""
    frame, clean = files.conditions, files.result["clean"]
    rows = frame[(frame["screen"] == screen) & (frame["role"] == "circuit")]
    metrics = [m for m in ("top1", "logit_diff") if numbers.known(clean.get(m))]
    return [{"kind": r["kind"], **{m: r[m] - clean[m] for m in metrics}} for r in rows.to_dict("records")]


def _extra(files: CellFiles) -> list[dict[str, Any]]:
    """Union and upper-bound conditions, as Δ."""
    clean, frame = files.result["clean"], files.conditions
    rows = frame[frame["role"].isin(["union", "upper_bound"])].to_dict("records")
    return [
        {
            "role": r["role"],
            "screen": r["screen"],
            "kind": r["kind"],
            "n": str(r["heads"]).count("L"),
            **{m: r[m] - clean[m] for m in ("top1", "logit_diff") if numbers.known(clean.get(m))},
        }
        for r in rows
    ]


def _sample(prompts: tuple[dict[str, Any], ...]) -> list[dict[str, Any]]:
    """A few prompts of each half, in their order."""
    halves: dict[str, list[dict[str, Any]]] = {}
    for prompt in prompts:
        halves.setdefault(str(prompt.get("half", "")), []).append(prompt)
    return [p for half in halves.values() for p in half[:PROMPTS_SHOWN]]


def _prompt(row: Mapping[str, Any]) -> dict[str, Any]:
    """A prompt cut into stretches, the named ones with their names."""
    text, parts, at = str(row["prompt"]), [], 0
    spans = row.get("spans") if isinstance(row.get("spans"), dict) else {}
    for start, stop, name in sorted(_spans(spans or {}, len(text))):
        if start < at:
            continue  # overlapping spans: the first one is shown
        parts += [(text[at:start], ""), (text[start:stop], name)]
        at = stop
    parts.append((text[at:], ""))
    answers = {
        k: [row[k]] if isinstance(row.get(k), str) else list(row.get(k) or ())
        for k in ("target", "distractor")
    }
    return {"parts": parts, "half": str(row.get("half", "")), **answers}


def _spans(spans: Mapping[str, Any], length: int) -> list[tuple[int, int, str]]:
    good = []
    for name, span in spans.items():
        if isinstance(span, list | tuple) and len(span) == 2 and all(isinstance(i, int) for i in span):
            start, stop = span
            if 0 <= start < stop <= length:
                good.append((start, stop, str(name)))
    return good


def rerun_command(result: Mapping[str, Any]) -> str:
    """The command that gives this cell again: its overrides where they are known, else its main choices."""
    given = result.get("overrides")
    if isinstance(given, list):
        parts = [str(o) for o in given]
    else:
        choice = {
            k: v if isinstance(v, str) else v.get("name", "")
            for k in ("control", "ablation")
            for v in [result[k]]
        }
        parts = [f"model={result['model']['name']}", f"task={result['task']['name']}"]
        parts += [
            f"task.n={result['task']['n']}",
            *(f"{k}={v}" for k, v in choice.items()),
            f"seed={result['seed']}",
        ]
    import shlex

    return " ".join(["python -m mechexp", *(shlex.quote(p) for p in parts)])
