"""A small calibration end to end, resumed, judged against what was planted, and mirrored into MLflow."""

import json

import pytest

from mechexp.calibrate.__main__ import main
from mechexp.calibrate.cell import Ask, Setting
from mechexp.calibrate.runner import identity
from mechexp.calibrate.verdicts import cases
from mechexp.findings import TaxonomyConfig
from mechexp.planted import PlantedOptions

MODELS = 4


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    root = tmp_path_factory.mktemp("calibration")
    arguments = [
        "--models", str(MODELS), "--seed", "40", "--prompts", "40", "--vary", "1", "--population", "60",
        "--jobs", "1", "--output", str(root / "out"), "--root", str(root / "mlruns"),
    ]  # fmt: skip
    assert main(arguments) == 0
    return root, arguments


def summary(root):
    return json.loads((root / "out" / "calibration.json").read_text())


def rows(root):
    return [json.loads(p.read_text()) for p in sorted((root / "out" / "models").glob("*.json"))]


def test_it_leaves_rates_confusion_and_plots(done):
    root, _ = done
    found = summary(root)
    assert found["models"] == MODELS
    assert (
        found["screens"] == 4 * MODELS == sum(n for row in found["confusion"].values() for n in row.values())
    )
    assert found["circuits_found"]["rate"] == 1.0  # the screens pick exactly the planted heads
    assert 0 <= found["false_positive_rate"] <= 1
    assert set(found["recall"]) <= {"primary", "secondary", "interferer", "correlate", "null"}
    assert sorted(p.name for p in (root / "out" / "plots").iterdir()) == [
        "matched_sets.png", "p_qq.png", "recall_by_strength.png",
    ]  # fmt: skip
    assert set(found["settings"]) == {"default", "zero", "resample", "prompts_32", "prompts_200"}
    assert found["settings"]["zero"]["models"] == 1


def test_clear_causes_are_found_and_ten_sets_cannot_find_them(done):
    found = rows(done[0])
    primary = [c for c in cases(found) if c.role == "primary"]
    assert primary
    assert all(c.label == "primary" for c in primary)
    assert not any(c.label in ("primary", "secondary", "interferer") for c in cases(found, sets="paper"))


def test_thresholds_change_labels_without_a_new_run(done):
    found = rows(done[0])
    assert {c.label for c in cases(found, taxonomy=TaxonomyConfig(min_top1=1.0, min_frac_correct=1.0))} != {
        c.label for c in cases(found)
    } or all(row["runs"]["default"]["clean"]["top1"] == 1.0 for row in found)
    strict = cases(found, taxonomy=TaxonomyConfig(min_specificity=1e6, interferer_specificity=1e6))
    assert not any(c.label in ("primary", "secondary", "interferer") for c in strict)


def test_a_second_run_computes_nothing_that_is_there(done):
    root, arguments = done
    before = {p.name: p.stat().st_mtime_ns for p in (root / "out" / "models").iterdir()}
    first = summary(root)
    (root / "out" / "models" / "000041.json").unlink()
    assert main([*arguments, "--tracking", "off"]) == 0
    after = {p.name: p.stat().st_mtime_ns for p in (root / "out" / "models").iterdir()}
    assert set(after) == set(before)
    assert [n for n in after if after[n] != before[n]] == ["000041.json"]
    again = summary(root)
    for key in ("confusion", "recall", "p_values", "coverage", "sets"):
        assert again[key] == first[key], key  # the model that was run again gave the same numbers


def test_other_questions_do_not_mix_with_finished_models(done, capsys):
    _, arguments = done
    other = [a if a != "40" or arguments[i - 1] != "--prompts" else "44" for i, a in enumerate(arguments)]
    assert main([*other, "--tracking", "off"]) == 2
    assert "other settings" in capsys.readouterr().err


def test_the_run_is_in_mlflow(done):
    from mechexp.tracking.config import TrackingConfig
    from mechexp.tracking.store import open_store

    root, _ = done
    with open_store(TrackingConfig(root=str(root / "mlruns")), create=False) as store:
        runs = store.client.search_runs([store.experiment_id], "tags.`mechexp.level` = 'calibration'")
        assert len(runs) == 1
        assert runs[0].info.status == "FINISHED"
        assert runs[0].data.params["models"] == str(MODELS)
        primary = summary(root)["recall_clear"]["primary"]["rate"]
        assert runs[0].data.metrics["recall_clear_primary"] == primary
        assert "calibration.json" in [f.path for f in store.client.list_artifacts(runs[0].info.run_id)]


@pytest.mark.parametrize("wrong", [["--models", "0"], ["--prompts", "3"], ["--seed", "-1"], ["--jobs", "0"]])
def test_numbers_that_make_no_sense_are_refused(wrong, tmp_path, capsys):
    assert main([*wrong, "--output", str(tmp_path), "--tracking", "off"]) == 2
    assert wrong[0] in capsys.readouterr().err


def test_what_a_row_depends_on():
    ask = Ask(PlantedOptions(seed=1))
    assert identity(ask) == identity(Ask(PlantedOptions(seed=1)))
    others = (
        Ask(PlantedOptions(seed=2)),
        Ask(PlantedOptions(seed=1, noise=0.1)),
        Ask(PlantedOptions(seed=1), population=10),
        Ask(PlantedOptions(seed=1), (Setting(prompts=80),)),
    )
    assert len({identity(ask), *map(identity, others)}) == 1 + len(others)
