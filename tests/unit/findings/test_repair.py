"""Self-repair: direct against total effect."""

import numpy as np
import pytest

from mechexp.findings import bootstrap_counts
from mechexp.findings.repair import self_repair

COUNTS = bootstrap_counts(50, 500)
RNG = np.random.default_rng(0)


def test_no_later_layer_no_repair() -> None:
    clean, written = RNG.normal(3, 1, 50), RNG.normal(1, 0.2, 50)
    found = self_repair(clean, clean - written, written, COUNTS)
    assert found.direct == pytest.approx(found.total) == pytest.approx(-written.mean())
    assert found.repair == pytest.approx(0, abs=1e-12) and found.share == pytest.approx(0, abs=1e-12)


def test_half_repaired() -> None:
    clean, written = RNG.normal(3, 1, 50), RNG.normal(1, 0.2, 50)
    found = self_repair(clean, clean - written / 2, written, COUNTS)
    assert found.share == pytest.approx(0.5)
    assert found.repair == pytest.approx(written.mean() / 2)
    assert 0 < found.repair_low < found.repair < found.repair_high


def test_amplified_loss_is_a_negative_share() -> None:
    clean = np.full(50, 2.0)
    assert self_repair(clean, clean - 3, np.full(50, 1.0), COUNTS).share == pytest.approx(-2)


def test_nothing_written_has_no_share() -> None:
    clean = np.full(50, 2.0)
    assert np.isnan(self_repair(clean, clean - 1, np.zeros(50), COUNTS).share)
    assert np.isnan(self_repair(clean, clean - 1, np.full(50, 0.09), COUNTS).share)
    assert self_repair(clean, clean - 1, np.full(50, 0.2), COUNTS).share == pytest.approx(-4)
