"""From evidence to labels: tests, rules, and who is primary among the screens of a cell."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mechexp.findings.config import TaxonomyConfig
from mechexp.findings.correction import Tested, benjamini_hochberg, sets_to_settle
from mechexp.findings.evidence import Evidence
from mechexp.findings.null import TIE
from mechexp.findings.rules import Draft, competence, is_saturated, is_sizeable, judge_screen
from mechexp.findings.wording import amount


@dataclass(frozen=True)
class Verdict:
    """The label of one screen on one metric.

    Attributes:
        label: One of ``LABELS``.
        flags: Names from ``FLAGS``.
        rules: Sentences with the numbers that decided it.
        tested: The tests against the null, corrected where the screen belongs to a sweep.
    """

    label: str
    flags: tuple[str, ...]
    rules: tuple[str, ...]
    tested: Tested


def judge_cell(
    evidence: Sequence[Evidence], cfg: TaxonomyConfig, tests: Sequence[Tested] | None = None
) -> list[Verdict]:
    """Label the screens of one cell.

    Args:
        evidence: One entry a screen and metric, in any order; metrics are judged apart.
        cfg: Thresholds.
        tests: Outcome of each entry's tests, from a sweep; by default each uses its own p.

    Returns:
        Verdicts in the order of ``evidence``; they do not depend on that order.

    Raises:
        ValueError: Entries of several cells, or one screen twice.
    """
    if len({e.cell for e in evidence}) > 1:
        raise ValueError("judge_cell takes the screens of one cell; use judge_sweep")
    keys = [(e.screen, e.metric) for e in evidence]
    if len(set(keys)) < len(keys):
        raise ValueError("a screen is there twice")
    tests = [own_test(e, cfg) for e in evidence] if tests is None else tests
    drafts = [judge_screen(e, t, cfg) for e, t in zip(evidence, tests, strict=True)]
    if cfg.strict_paper:
        drafts = [fold(e, d, cfg) for e, d in zip(evidence, drafts, strict=True)]
    verdicts: list[Verdict] = [
        Verdict(d.label, d.flags, d.rules, t) for d, t in zip(drafts, tests, strict=True)
    ]
    for metric in {e.metric for e in evidence}:
        where = [i for i, e in enumerate(evidence) if e.metric == metric]
        ranked = _rank([evidence[i] for i in where], [verdicts[i] for i in where], cfg)
        for i, verdict in zip(where, ranked, strict=True):
            verdicts[i] = verdict
    return verdicts


def judge_sweep(evidence: Sequence[Evidence], cfg: TaxonomyConfig) -> list[Verdict]:
    """Label the screens of many cells jointly, with Benjamini–Hochberg over all of them per metric.

    Harm and help are two families a metric (ours). Screens of a cell that picked the same heads are one test;
    cells whose model is not competent, empty circuits and circuits without a null are none. A sweep of a
    single cell keeps each test's own p.

    Returns:
        Verdicts in the order of ``evidence``.
    """
    cells: dict[str, list[int]] = defaultdict(list)
    for i, e in enumerate(evidence):
        cells[e.cell].append(i)
    tests = sweep_tests(evidence, cfg) if len(cells) > 1 else [own_test(e, cfg) for e in evidence]
    verdicts: dict[int, Verdict] = {}
    for where in cells.values():
        judged = judge_cell([evidence[i] for i in where], cfg, [tests[i] for i in where])
        verdicts.update(zip(where, judged, strict=True))
    return [verdicts[i] for i in range(len(evidence))]


def own_test(e: Evidence, cfg: TaxonomyConfig) -> Tested:
    """The tests of one screen by its own p."""
    harm, help_ = (p <= cfg.alpha + TIE for p in (e.null.p_harm, e.null.p_help))
    short = is_short(e, passed=harm if e.effect.delta < 0 else help_)
    needed = sets_to_settle([e.null.floor], [short], cfg.alpha)
    return Tested(harm, help_, e.null.p_harm, e.null.p_help, needed)


def sweep_tests(evidence: Sequence[Evidence], cfg: TaxonomyConfig) -> list[Tested]:
    """The tests of many screens, corrected per metric and direction."""
    tests: list[Tested] = [Tested(False, False, e.null.p_harm, e.null.p_help) for e in evidence]
    for metric in {e.metric for e in evidence}:
        where = [i for i, e in enumerate(evidence) if e.metric == metric and is_test(e, cfg)]
        family = _one_test_a_circuit([evidence[i] for i in where])
        members = [evidence[where[k]] for k in family.values()]
        harm = _family([e.null.p_harm for e in members], [e.effect.delta < 0 for e in members], members, cfg)
        help_ = _family([e.null.p_help for e in members], [e.effect.delta > 0 for e in members], members, cfg)
        place = {key: k for k, key in enumerate(family)}
        for i in where:
            k = place[_circuit_key(evidence[i])]
            needed = max(harm.needed[k], help_.needed[k])
            tests[i] = Tested(
                harm.passed[k], help_.passed[k], harm.adjusted[k], help_.adjusted[k], needed, len(members)
            )
    return tests


def is_test(e: Evidence, cfg: TaxonomyConfig) -> bool:
    """Whether a screen is tested at all."""
    return bool(e.heads) and e.null.p_harm == e.null.p_harm and all(c.holds for c in competence(e, cfg))


def is_short(e: Evidence, *, passed: bool) -> bool:
    """Whether a test failed for want of sets alone: p, in the direction of Δ, is at its floor."""
    p = e.null.p_harm if e.effect.delta < 0 else e.null.p_help
    return bool(e.effect.delta) and not passed and e.null.at_floor(p)


def fold(e: Evidence, draft: Draft, cfg: TaxonomyConfig) -> Draft:
    """``strict_paper``: fold indeterminate into the nearest of the paper's five classes (ours).

    The paper has no test, so size and specificity decide. A specificity of 3 makes harm a cause; between 2
    and 3 a sizeable effect goes to the nearer side (2.5). Help is an interferer if it is sizeable and
    specific. All else is null. Without a null there is no specificity, and the label stays open.
    """
    if draft.label != "indeterminate" or not e.null.sets:
        return draft
    r, sizeable = e.null.specificity, is_sizeable(e, cfg)
    specific = r >= cfg.min_specificity or (r >= cfg.fold_specificity and sizeable)
    label = "null"
    if e.effect.delta < 0 and specific and not is_saturated(e, cfg):
        label = "cause"
    elif e.effect.delta > 0 and specific and sizeable:
        label = "interferer"
    extra = ("folded", *(("weak",) if label == "cause" and not sizeable else ()))
    if label == "interferer" and e.bos >= cfg.bos_fraction:
        extra = (*extra, "bos_confound")
    rule = f"Folded into {label}: Δ = {amount(e, e.effect.delta)}, specificity = {r:.3g}."
    return Draft(label, draft.flags + extra, (rule, *draft.rules))


def _rank(evidence: list[Evidence], verdicts: list[Verdict], cfg: TaxonomyConfig) -> list[Verdict]:
    """Name the primary among the causes of a cell: the largest |Δ − μ|.

    Screens with the same heads are one finding and share their label. Among different circuits with equal
    |Δ − μ|, the larger |Δ|, then the smaller circuit, then the name comes first (ours).
    """
    circuits: dict[tuple[tuple[int, int], ...], list[int]] = defaultdict(list)
    for i, e in enumerate(evidence):
        if e.heads:
            circuits[e.heads].append(i)
    out = [
        replace(v, flags=(*v.flags, "same_heads")) if len(circuits.get(e.heads, ())) > 1 else v
        for e, v in zip(evidence, verdicts, strict=True)
    ]
    causes = [i for i, v in enumerate(verdicts) if v.label == "cause"]
    if not causes:
        return out
    best = min(causes, key=lambda i: _rank_key(evidence[i]))
    rivals = [
        e.screen for e, v in zip(evidence, verdicts, strict=True) if _is_open(e, v, evidence[best], cfg)
    ]
    for i in causes:
        out[i] = _placed(evidence[i], out[i], evidence[best], sorted(rivals))
    return out


def _placed(e: Evidence, v: Verdict, best: Evidence, rivals: list[str]) -> Verdict:
    size = f"|Δ − μ| = {amount(e, abs(e.effect.excess))[1:]}"
    if e.heads != best.heads:
        rule = f"Secondary: {size}, less than {best.screen} ({amount(best, abs(best.effect.excess))[1:]})."
        return replace(v, label="secondary", rules=(rule, *v.rules))
    if rivals:
        rule = f"Secondary: {', '.join(rivals)} may have a larger effect, but too few matched sets to tell."
        return replace(v, label="secondary", flags=(*v.flags, "primary_open"), rules=(rule, *v.rules))
    rule = f"Primary: {size} is the largest of the cell's causes."
    return replace(v, label="primary", rules=(rule, *v.rules))


def _rank_key(e: Evidence) -> tuple[float, float, int, str]:
    return (-round(abs(e.effect.excess), 9), -round(abs(e.effect.delta), 9), e.n_heads, e.screen)


def _is_open(e: Evidence, v: Verdict, best: Evidence, cfg: TaxonomyConfig) -> bool:
    """Whether a screen may be the true primary, and only matched sets are missing to say so."""
    if v.label != "indeterminate" or e.effect.delta >= 0 or e.effect.delta_high >= 0 or e.heads == best.heads:
        return False
    if "no_null" in v.flags:
        return abs(e.effect.delta) > abs(best.effect.delta)
    larger = abs(e.effect.excess) > abs(best.effect.excess)
    return "underpowered" in v.flags and e.null.specificity >= cfg.min_specificity and larger


@dataclass(frozen=True)
class _Family:
    passed: list[bool]
    adjusted: list[float]
    needed: list[int]


def _family(p: list[float], own_side: list[bool], members: list[Evidence], cfg: TaxonomyConfig) -> _Family:
    """One direction of the tests of a metric; a test is short of sets only on the side of its Δ."""
    passed, adjusted = benjamini_hochberg(p, cfg.alpha)
    short = [
        own and not ok and e.null.at_floor(q)
        for q, own, ok, e in zip(p, own_side, passed, members, strict=True)
    ]
    needed = sets_to_settle(p, short, cfg.alpha)
    return _Family(
        [bool(x) for x in passed], [float(x) for x in adjusted], [needed if s else 0 for s in short]
    )


def _circuit_key(e: Evidence) -> tuple[object, ...]:
    return (e.cell, e.heads, e.null.p_harm, e.null.p_help)


def _one_test_a_circuit(evidence: list[Evidence]) -> dict[tuple[object, ...], int]:
    """Index of the first entry of each distinct circuit of each cell."""
    family: dict[tuple[object, ...], int] = {}
    for k, e in enumerate(evidence):
        family.setdefault(_circuit_key(e), k)
    return family
