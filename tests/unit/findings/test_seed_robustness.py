"""Labels over redrawn nulls."""

import numpy as np
import pytest

from mechexp.findings import TaxonomyConfig, bootstrap_counts, judge, measure_evidence
from mechexp.findings.evidence import Evidence
from mechexp.findings.seed_robustness import redrawn_labels, with_null

P = 60


Deltas = dict[tuple[str, str], np.ndarray]


def cell(delta: float, null: np.ndarray, seed: int = 0) -> tuple[list[Evidence], Deltas]:
    """One screen with an effect on both metrics, and Δ of its matched sets (M,)."""
    rng = np.random.default_rng(seed)
    clean = rng.normal(1.0, 0.01, size=P)
    counts = bootstrap_counts(P, 200)
    evidence = [
        measure_evidence(
            clean, clean + delta, clean + null[:, None], counts, cell="c", screen="s", metric=metric,
            heads=[(0, 1), (1, 2)], singles_KP=np.stack([clean + delta / 2] * 2), clean_top1=0.9,
            clean_frac_correct=1.0, bos=0.0, pattern=1.0, direct=0.0,
        )
        for metric in ("top1", "logit_diff")
    ]  # fmt: skip
    return evidence, {("s", m): null for m in ("top1", "logit_diff")}


def test_an_effect_that_every_draw_shows_keeps_its_label_by_the_papers_rules() -> None:
    evidence, deltas = cell(-0.6, np.random.default_rng(1).normal(0, 0.02, 99))
    strict = TaxonomyConfig(strict_paper=True)
    found = redrawn_labels(evidence, deltas, strict, sets=10, redraws=40)["s"]
    assert found.label == "primary"
    assert found.shares == {"primary": 1.0} and found.other == 0


def test_ten_sets_make_no_cause_by_our_rules() -> None:
    """Ten sets cannot reach p < .05: their smallest p is 1/11."""
    evidence, deltas = cell(-0.6, np.random.default_rng(1).normal(0, 0.02, 99))
    found = redrawn_labels(evidence, deltas, TaxonomyConfig(), sets=10, redraws=20)["s"]
    assert found.label == "primary" and found.other == 1.0
    assert set(found.shares) == {"indeterminate"}


def test_a_ragged_null_gives_other_labels_now_and_then() -> None:
    """Few sets carry the null's mean: whether they are drawn decides the specificity."""
    null = np.zeros(99)
    null[:12] = -0.9
    evidence, deltas = cell(-0.3, null)
    found = redrawn_labels(evidence, deltas, TaxonomyConfig(strict_paper=True), sets=10, redraws=200)["s"]
    assert len(found.shares) > 1
    assert sum(found.shares.values()) == pytest.approx(1)
    assert 0 < found.other < 1


def test_all_sets_but_one_come_close_to_all_sets() -> None:
    null = np.random.default_rng(1).normal(-0.02, 0.02, 99)
    evidence, deltas = cell(-0.6, null)
    found = redrawn_labels(evidence, deltas, TaxonomyConfig(), sets=98, redraws=5)["s"]
    assert found.other == 0


def test_the_seed_decides_and_too_few_sets_are_left_out() -> None:
    null = np.zeros(40)
    null[:6] = -0.9
    evidence, deltas = cell(-0.3, null)
    cfg = TaxonomyConfig(strict_paper=True)
    a, b, c = (redrawn_labels(evidence, deltas, cfg, redraws=30, seed=s)["s"].shares for s in (0, 0, 1))
    assert a == b and a != c
    short = {k: v[:10] for k, v in deltas.items()}
    assert redrawn_labels(evidence, short, cfg, sets=10) == {}
    assert redrawn_labels(evidence, deltas, cfg, redraws=0) == {}


def test_another_null_moves_the_excess_and_nothing_of_the_effect() -> None:
    evidence, _ = cell(-0.6, np.full(20, -0.1))
    moved = with_null(evidence[1], np.array([-0.2, -0.4]))
    assert moved.effect.delta == evidence[1].effect.delta
    assert moved.effect.excess == pytest.approx(-0.6 + 0.3)
    width = evidence[1].effect.excess_high - evidence[1].effect.excess_low
    assert moved.effect.excess_high - moved.effect.excess_low == pytest.approx(width)
    assert moved.null.sets == 2 and moved.null.p_harm == pytest.approx(1 / 3)
    assert judge(evidence, TaxonomyConfig())  # and is still what labels are made of
