import csv
import io
import json
from pathlib import Path

import pytest
from factories import NONE, STRONG, WEAK, make_cell

from mechexp.errors import UserError
from mechexp.findings.config import TaxonomyConfig
from mechexp.tracking.joint import UNFINISHED, JointCell, judge_sweep_folder, label_jointly, write_joint
from mechexp.tracking.results import write_failure

TASKS = [f"task{i}" for i in range(6)]


def make_sweep(folder: Path, sets: int = 99) -> None:
    for i, task in enumerate(TASKS):
        make_cell(folder / str(i), "pythia", task, {"prev_token": STRONG if i == 0 else NONE}, sets=sets)


def labels(folder: Path) -> list[tuple[str, str]]:
    joint = judge_sweep_folder(folder, TaxonomyConfig())
    return [(s["taxonomy_cell"], s["taxonomy"]) for c in joint.cells for s in c.result["screens"].values()]


def test_labels_are_corrected_over_the_sweep(tmp_path: Path) -> None:
    make_sweep(tmp_path / "few", sets=19)
    make_sweep(tmp_path / "many", sets=199)
    # p = 1/20 passes alone, not among six tests; p = 1/200 passes among them too
    assert labels(tmp_path / "few")[0] == ("primary", "indeterminate")
    assert labels(tmp_path / "many")[0] == ("primary", "primary")
    assert labels(tmp_path / "many")[1:] == [("null", "null")] * 5


def test_a_cell_that_was_left_alone_keeps_its_own_labels(tmp_path: Path) -> None:
    make_cell(tmp_path / "0", effects={"prev_token": STRONG, "name_mover": WEAK}, sets=19)
    joint = judge_sweep_folder(tmp_path, TaxonomyConfig())
    for row in joint.cells[0].result["screens"].values():
        assert row["taxonomy"] == row["taxonomy_cell"]


def test_jobs_without_a_result_are_failures_that_say_why(tmp_path: Path) -> None:
    make_sweep(tmp_path)
    write_failure(tmp_path / "6", RuntimeError("weights are NaN\nand more"))
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "config.yaml").write_text("seed: 0\n")
    make_cell(tmp_path / "8")
    (tmp_path / "8" / "result.json").write_text('{"schema": "mechexp.res')
    (tmp_path / "no_job").mkdir()
    joint = judge_sweep_folder(tmp_path, TaxonomyConfig())
    assert len(joint.cells) == 6
    told = {f.folder.name: f.error for f in joint.failures}
    assert told["6"] == "weights are NaN"
    assert told["7"] == UNFINISHED
    assert "cut short" in told["8"]
    assert set(told) == {"6", "7", "8"}


def test_jobs_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for i in (10, 9, 1):
        make_cell(tmp_path / str(i))
    joint = judge_sweep_folder(tmp_path, TaxonomyConfig())
    assert [c.folder.name for c in joint.cells] == ["1", "9", "10"]


def test_the_table_on_disk_is_what_was_judged(tmp_path: Path) -> None:
    make_sweep(tmp_path)
    write_failure(tmp_path / "6", RuntimeError("boom"))
    joint = judge_sweep_folder(tmp_path, TaxonomyConfig())
    write_joint(joint)
    stored = json.loads((tmp_path / "joint.json").read_text())
    rows = list(csv.DictReader(io.StringIO((tmp_path / "joint.csv").read_text())))
    assert [r["task"] for r in rows] == TASKS == [r["task"] for r in stored["rows"]]
    assert [r["taxonomy"] for r in rows] == [r["taxonomy"] for r in stored["rows"]]
    assert float(rows[0]["delta_logit_diff"]) == stored["rows"][0]["delta_logit_diff"] == -3.1
    assert stored["failures"] == [{"folder": str(tmp_path / "6"), "error": "boom"}]


def test_a_cell_without_its_numbers_says_so_and_does_not_stop_the_others(tmp_path: Path) -> None:
    make_sweep(tmp_path)
    row = json.loads((tmp_path / "2" / "result.json").read_text())
    row["screens"]["prev_token"]["evidence"] = {}
    (tmp_path / "2" / "result.json").write_text(json.dumps(row))
    joint = judge_sweep_folder(tmp_path, TaxonomyConfig())
    assert len(joint.cells) == 5
    assert [(f.folder.name, "prev_token" in f.error) for f in joint.failures] == [("2", True)]
    with pytest.raises(UserError, match="prev_token"):
        label_jointly([*joint.cells, JointCell(tmp_path / "2", row)], TaxonomyConfig())
