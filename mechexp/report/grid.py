"""What a set of cells shows: models × tasks by primary cause, and whether a primary is shared."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from mechexp.findings.cells import check_frame
from mechexp.findings.cross import Claim, no_shared_primary, primary_table
from mechexp.findings.moe_primacy import FALSIFIER, PrimacyReport, moe_primacy

# A dense model is no evidence on the hypothesis itself, but a pattern that it shows too is not about MoE.
DENSE = {"supports": "shows the pattern too", "contradicts": "does not show it", "undecided": "undecided"}
NEEDED = ("delta_logit_diff", "delta_logit_diff_low", "delta_logit_diff_high", "clean_logit_diff")


@dataclass(frozen=True)
class Grid:
    """Cells of one setting (control, ablation, seed, k, swept keys), side by side.

    Attributes:
        setting: What they have in common.
        table: Models × tasks; the primary screen, ``none``, or ``? (why it is not settled)``.
        claim: The published claim that no two models share a primary on a task, at comparable size, tested;
            its evidence lists the pairs that share one, with the difference of its effect.
        sentences: What the grid shows, in words.
    """

    setting: str
    table: pd.DataFrame
    claim: Claim
    sentences: tuple[str, ...]


def grids(rows: Iterable[Mapping[str, Any]]) -> list[Grid]:
    """One grid a setting.

    Args:
        rows: One a screen: ``model, task, screen, taxonomy, flags`` (comma-separated), ``setting`` (text),
            ``moe``, ``arch`` and metrics. A model × task × screen is there once in a setting.
    """
    by_setting: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_setting.setdefault(str(row["setting"]), []).append(row)
    return [_grid(setting, pd.DataFrame(group)) for setting, group in by_setting.items()]


def _grid(setting: str, frame: pd.DataFrame) -> Grid:
    for name in NEEDED:
        frame[name] = pd.to_numeric(frame[name], errors="coerce") if name in frame else float("nan")
    check_frame(frame)
    claim = no_shared_primary(frame, comparable=True)
    sentences = [_shared_sentence(claim, frame)]
    if "moe" in frame and frame["moe"].any():
        sentences += moe_sentences(moe_primacy(frame))
    return Grid(setting, primary_table(frame).T, claim, tuple(sentences))


def moe_sentences(report: PrimacyReport) -> list[str]:
    """The MoE hypothesis against the cells at hand: verdict, what would falsify it, and every cell."""
    claim = "prev_token primary in MoE models on gt, succ, vb and not on ioi"
    verdict = f"{claim}: {report.verdict} ({report.reason})."
    cells = []
    for row in report.cells.to_dict("records"):
        kind = "MoE" if row["moe"] else "dense"
        routing = ""
        if pd.notna(row.get("router_topk_change")):
            routing = f"; {row['router_topk_change']:.0%} of tokens change experts under its ablation"
        status = str(row["status"]) if row["moe"] else DENSE[str(row["status"])]
        cells.append(f"{row['model']} ({kind}) · {row['task']}: {status} ({row['reason']}{routing}).")
    return [verdict, FALSIFIER, *cells]


def _shared_sentence(claim: Claim, frame: pd.DataFrame) -> str:
    """Is any primary cause shared by two models on one task, at comparable size?"""
    question = "Is a primary cause shared by two models on one task, at comparable size?"
    answer = {"false": "Yes", "true": "No", "undecided": "Undecided", "untested": "Untested"}[claim.verdict]
    arches = {a for a in frame.get("arch", pd.Series(dtype=str)) if a}
    pairs = claim.evidence
    across = pairs[(pairs["comparable"] == "yes") & _differ(pairs, frame)] if len(pairs) else pairs
    text = f"{question} {answer}: {claim.reason}."
    if claim.verdict == "false" and len(arches) > 1:
        text += (
            f" {len(across)} of these pairs are of two architectures."
            if len(across)
            else (" None of these pairs is of two architectures.")
        )
    elif len(arches) == 1 and frame["model"].nunique() > 1:
        text += f" All models here are of one architecture ({arches.pop()})."
    return text


def _differ(pairs: pd.DataFrame, frame: pd.DataFrame) -> "pd.Series[bool]":
    arch = dict(zip(frame["model"], frame.get("arch", ""), strict=True)) if "arch" in frame else {}
    return pairs["model_a"].map(arch) != pairs["model_b"].map(arch)
