"""Labels of stored cells under other controls and thresholds, without running a model again."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mechexp.controls.paper import SEEDS, paper_set
from mechexp.findings import TaxonomyConfig, judge, summarise_null
from mechexp.findings.evidence import Evidence
from mechexp.findings.rows import from_row
from mechexp.models.heads import Geometry, Head, format_heads
from mechexp.planted.blueprint import N_HEADS, N_LAYERS
from mechexp.planted.write import HEAD_DIM
from mechexp.screens.circuit import Circuit

CAUSAL = ("primary", "secondary", "interferer")


@dataclass(frozen=True)
class Case:
    """One screen of one planted model, as it is and as it was called.

    Attributes:
        seed: The model.
        screen: The screen.
        role: What its circuit is.
        expected: Labels that are right, the best first.
        label: The label it got.
        label_top1: The label on top-1.
        flags: Its flags.
        share: What it does to the answer by construction, as a share of the clean model's.
        stands_out: Its size in standard deviations, by construction, of as many ordinary heads.
        found: Whether the screen picked exactly the planted heads.
        p_harm: Its p_harm on the logit difference; so for the next two.
        p_help: p_help.
        delta: Δ as a share of clean.
        specificity: Specificity.
        z: z.
    """

    seed: int
    screen: str
    role: str
    expected: tuple[str, ...]
    label: str
    label_top1: str
    flags: tuple[str, ...]
    share: float
    stands_out: float
    found: bool
    p_harm: float
    p_help: float
    delta: float
    specificity: float
    z: float

    @property
    def right(self) -> bool:
        """Whether the label is one of those expected."""
        return self.label in self.expected


def cases(
    rows: Iterable[Mapping[str, Any]],
    *,
    setting: str = "default",
    sets: int | str = "all",
    taxonomy: TaxonomyConfig | None = None,
) -> list[Case]:
    """Label the screens of stored models.

    Args:
        rows: From ``run_model``.
        setting: Which of its settings; models that were not run under it are left out.
        sets: ``all`` that were drawn (99, or all that exist), the first few of them, or ``paper``: the ten
            published draws.
        taxonomy: Thresholds.
    """
    found = []
    for row in rows:
        run = row["runs"].get(setting)
        if run is None:
            continue
        pairs = [e for s, screen in run["screens"].items() for e in _evidence(s, screen, sets)]
        for finding in judge(pairs, taxonomy or TaxonomyConfig()):
            e = next(e for e in pairs if e.screen == finding.screen and e.metric == "logit_diff")
            found.append(_case(row, run, e, finding))
    return found


def _case(row: Mapping[str, Any], run: Mapping[str, Any], e: Evidence, finding: Any) -> Case:
    truth = row["truth"][e.screen]
    zero = run["setting"]["ablation"] == "zero"
    return Case(
        seed=int(row["options"]["seed"]),
        screen=e.screen,
        role=str(truth["role"]),
        expected=tuple(truth["expected_zero" if zero else "expected"]),
        label=finding.label,
        label_top1=finding.taxonomy_top1,
        flags=tuple(finding.flags),
        share=float(truth["share"]),
        stands_out=abs(truth["support"]) / (row["spread"] * len(truth["heads"]) ** 0.5),
        found=sorted(e.heads) == sorted((int(a), int(b)) for a, b in truth["heads"]),
        p_harm=e.null.p_harm,
        p_help=e.null.p_help,
        delta=e.share_of_clean(e.effect.delta),
        specificity=e.null.specificity,
        z=e.null.z,
    )


def _evidence(screen: str, row: Mapping[str, Any], sets: int | str) -> list[Evidence]:
    """Evidence of one screen, with its null cut down to fewer sets where asked."""
    pair = from_row("cell", screen, row)
    null = row["null"]
    if sets == "all" or not null["heads"]:
        return list(pair)
    picked = _paper(row) if sets == "paper" else list(range(min(int(sets), len(null["heads"]))))
    return [_with_null(e, np.asarray(null[e.metric], float)[picked], sets) for e in pair]


def _with_null(e: Evidence, values: Any, sets: int | str) -> Evidence:
    clean = e.effect.clean
    null = summarise_null(e.effect.delta, values - clean, metric=e.metric, clean=clean)
    effect = replace(e.effect, excess=e.effect.delta - null.mean)
    return replace(e, null=null, effect=effect, control="paper" if sets == "paper" else e.control)


def _paper(row: Mapping[str, Any]) -> list[int]:
    """Places of the ten published draws among the sets that were measured (all that exist)."""
    heads = tuple(Head(int(a), int(b)) for a, b in row["heads"])
    circuit = Circuit("", heads, "", "", "", Geometry(N_LAYERS, N_HEADS, HEAD_DIM))
    places = {text: i for i, text in enumerate(row["null"]["heads"])}
    drawn: Sequence[str] = [format_heads(paper_set(circuit, seed)) for seed in SEEDS]
    return [places[text] for text in drawn if text in places]
