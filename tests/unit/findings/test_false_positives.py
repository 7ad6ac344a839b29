"""True nulls and true causes, from per-prompt values to the label."""

import subprocess
import sys

import numpy as np
import pytest

from mechexp.findings import TaxonomyConfig, bootstrap_counts, judge, measure_evidence

P, M, CELLS = 60, 99, 400
COUNTS = bootstrap_counts(P, 500, seed=0)


def label_of(rng, circuit_effect, spread):
    """One cell with one screen, whose circuit differs from its sets by ``circuit_effect`` alone."""
    clean = rng.normal(4, 1, P)
    effects = rng.normal(0, spread, M + 1)
    effects[0] += circuit_effect
    after = clean + effects[:, None] + rng.normal(0, 0.3, (M + 1, P))
    both = {"logit_diff": (clean, after), "top1": (clean > 2, after > 2)}
    evidence = [
        measure_evidence(
            before,
            values[0],
            values[1:],
            COUNTS,
            cell="c",
            screen="s",
            metric=metric,
            heads=[(0, 0)],
            singles_KP=values[:1],
            clean_top1=0.9,
            clean_frac_correct=1.0,
        )
        for metric, (before, values) in both.items()
    ]
    return judge(evidence, TaxonomyConfig())[0].label


@pytest.mark.parametrize("spread", [0.1, 1.0])
def test_a_circuit_like_its_sets_is_rarely_called_anything_causal(spread):
    """Harm and help are tested at 5 % each; the intervals, the specificity and the singles hold it below."""
    rng = np.random.default_rng(0)
    labels = [label_of(rng, 0.0, spread) for _ in range(CELLS)]
    causal = sum(label in ("primary", "secondary") for label in labels)
    assert causal / CELLS <= 0.07  # 5 % and three standard errors
    assert labels.count("interferer") / CELLS <= 0.085


def test_clear_causes_and_interferers_are_found():
    rng = np.random.default_rng(1)
    assert [label_of(rng, -2.0, 0.1) for _ in range(50)] == ["primary"] * 50
    assert [label_of(rng, 2.0, 0.1) for _ in range(50)] == ["interferer"] * 50


@pytest.mark.parametrize("config", ["mechexp.findings.config", "mechexp.controls.config"])
def test_configs_import_without_the_numerical_stack(config):
    code = f"import sys, {config}; print(sorted({{'torch', 'scipy', 'numpy', 'pandas'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
