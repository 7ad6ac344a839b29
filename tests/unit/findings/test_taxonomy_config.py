"""The thresholds: one source of truth, and no nonsense."""

from dataclasses import asdict
from pathlib import Path

import pytest
import yaml

from mechexp.errors import UserError
from mechexp.findings import TaxonomyConfig

DEFAULT = Path(__file__).parents[3] / "conf" / "taxonomy" / "default.yaml"


def test_the_config_file_and_the_dataclass_say_the_same():
    assert yaml.safe_load(DEFAULT.read_text()) == asdict(TaxonomyConfig())


def test_every_line_of_the_config_file_is_explained():
    lines = DEFAULT.read_text().splitlines()
    assert all(" # " in line or line.startswith(("#", "name:")) for line in lines)


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"alpha": 0.0}, "taxonomy.alpha"),
        ({"alpha": 1.0}, "taxonomy.alpha"),
        ({"min_top1": -0.1}, "taxonomy.min_top1"),
        ({"null_z": float("nan")}, "taxonomy.null_z"),
        ({"null_specificity": 4.0}, "null_specificity ≤ fold_specificity"),
        ({"fold_specificity": 3.5}, "null_specificity ≤ fold_specificity"),
    ],
)
def test_nonsense_is_refused(changes, where):
    with pytest.raises(UserError, match=where):
        TaxonomyConfig(**changes).check()


def test_the_defaults_pass():
    TaxonomyConfig().check()
