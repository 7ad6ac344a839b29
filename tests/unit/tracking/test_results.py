import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from factories import STRONG, cell_parts, make_cell
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mechexp.errors import UserError
from mechexp.tracking import files as files_module
from mechexp.tracking.results import (
    find_cells,
    find_failures,
    read_cell,
    read_result,
    write_cell,
    write_failure,
)
from mechexp.tracking.validate import METRIC_NAMES, METRICS, check_result

FILES = ("result.json", "heads.parquet", "conditions.parquet", "prompts.jsonl", "config.yaml")


def test_a_cell_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    written = make_cell(tmp_path)
    read = read_cell(tmp_path)
    assert read.result == written.result
    assert read.prompts == written.prompts
    pd.testing.assert_frame_equal(read.heads, written.heads)
    pd.testing.assert_frame_equal(read.conditions, written.conditions)
    assert {p.name for p in (tmp_path / "circuits").iterdir()} == {f"{s}.json" for s in read.screens}


def test_a_written_cell_holds_all_that_was_promised(tmp_path: Path) -> None:
    make_cell(tmp_path)
    row = json.loads((tmp_path / "result.json").read_text())
    names = {name.format(m=m) for m in METRICS for name in METRIC_NAMES}
    for screen in row["screens"].values():
        assert names <= set(screen["metrics"])
        assert {"heads", "n_heads", "taxonomy", "taxonomy_top1", "taxonomy_logit_diff", "flags"} <= set(
            screen
        )
    assert {"layer", "head", "best_class", "single_delta_top1"} <= set(
        pd.read_parquet(tmp_path / "heads.parquet")
    )


def test_result_json_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    replace = Path.replace

    def watched(self: Path, target: Path) -> Path:
        order.append(Path(target).name)
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", watched)
    make_cell(tmp_path, before_commit=lambda files: order.append("report"))
    assert order[-1] == "result.json"
    assert order[0] == "report"
    assert order.count("result.json") == 1
    assert set(FILES) <= set(order)


@pytest.mark.parametrize(
    "broken", [n for n in FILES if n != "result.json"] + ["name_mover.json", "result.json"]
)
def test_a_write_that_fails_leaves_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    make_cell(tmp_path / "before")
    replace = Path.replace

    def full(self: Path, target: Path) -> Path:
        if Path(target).name == broken:
            raise OSError(28, "No space left on device")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(UserError, match="disk is full") as caught:
        make_cell(tmp_path / "now")
    assert broken in str(caught.value)
    assert not (tmp_path / "now" / "result.json").exists()
    assert list(find_cells(tmp_path)) == [tmp_path / "before"]
    assert not list((tmp_path / "now").rglob("*.tmp"))
    read_cell(tmp_path / "before")


def test_a_failed_rewrite_keeps_the_result_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = make_cell(tmp_path)

    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files_module.os, "fsync", full)
    with pytest.raises(UserError):
        make_cell(tmp_path, seed=1)
    assert read_cell(tmp_path).result == old.result


def test_a_report_that_cannot_be_drawn_costs_no_result(tmp_path: Path) -> None:
    def broken(files: object) -> None:
        raise RuntimeError("no font")

    with pytest.raises(RuntimeError, match="no font"):
        make_cell(tmp_path, before_commit=broken)
    read_cell(tmp_path)


def test_a_new_result_removes_the_error_of_an_earlier_try(tmp_path: Path) -> None:
    write_failure(tmp_path, ValueError("boom"), model="pythia")
    assert [f["error"] for f in find_failures(tmp_path)] == ["boom"]
    make_cell(tmp_path)
    assert find_failures(tmp_path) == []


def test_unknown_numbers_are_null_and_nothing_else_is(tmp_path: Path) -> None:
    parts = cell_parts()
    metrics = parts["result"]["screens"]["induction"]["metrics"]
    metrics |= {"z_top1": math.nan, "specificity_top1": math.inf, "delta_top1": np.float64(0.25)}
    write_cell(tmp_path, **parts)
    stored = read_result(tmp_path)["screens"]["induction"]["metrics"]
    assert stored["z_top1"] is None
    assert stored["specificity_top1"] is None
    assert stored["delta_top1"] == 0.25
    assert "NaN" not in (tmp_path / "result.json").read_text()


def test_credentials_are_not_written_down(tmp_path: Path) -> None:
    parts = cell_parts(overrides=["tracking.uri=http://bob:s3cret@host"])
    parts["config"]["tracking"] = {"uri": "http://bob:s3cret@host", "password": "s3cret"}
    write_cell(tmp_path, **parts)
    write_failure(tmp_path, ValueError("http://bob:s3cret@host is down"))
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or b"s3cret" not in path.read_bytes(), path


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    make_cell(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(UserError) as caught:
        read_cell(tmp_path)
    assert caught.value.where == str(tmp_path / name)


@pytest.mark.parametrize("name", [n for n in FILES if n != "config.yaml"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_file_that_is_cut_short_is_named(tmp_path: Path, name: str, share: float) -> None:
    make_cell(tmp_path)
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(content[: int(len(content) * share)])
    with pytest.raises(UserError) as caught:
        read_cell(tmp_path)
    assert str(tmp_path / name) in caught.value.where


def spoilt(change: dict[str, Any]) -> dict[str, Any]:
    row = json.loads(json.dumps(cell_parts()["result"]))
    for path, value in change.items():
        place = row
        *parents, last = path.split("/")
        for key in parents:
            place = place[key]
        if value is ...:
            del place[last]
        else:
            place[last] = value
    return row


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"schema": "mechexp.result/99"}, "schema"),
        ({"status": "great"}, "status"),
        ({"clean": ...}, "clean"),
        ({"seed": True}, "seed"),
        ({"clean/top1": "0.9"}, "clean.top1"),
        ({"screens/induction": []}, "screens.induction"),
        ({"screens/induction/taxonomy": ...}, "screens.induction.taxonomy"),
        ({"screens/induction/heads": [[99, 0]]}, "12 layers × 8 heads"),
        ({"screens/induction/heads": [[1]]}, "heads"),
        ({"screens/induction/heads": [[1, True]]}, "heads"),
        ({"screens/induction/metrics/delta_top1": "big"}, "delta_top1"),
        ({"screens/induction/flags": [1]}, "flags"),
        ({"model/n_layers": "12"}, "model.n_layers"),
        ({"task/name": "../../etc/passwd"}, "file name"),
        ({"screens/..": {}}, "file name"),
        ({"screens/a\\b": {}}, "file name"),
        ({"screens/.hidden": {}}, "file name"),
    ],
)
def test_what_is_wrong_with_a_result_is_told(change: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError) as caught:
        check_result(spoilt(change), "result.json")
    assert told in str(caught.value)


def test_a_screen_cannot_write_outside_the_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="file name"):
        make_cell(tmp_path / "job", effects={"../../evil": STRONG})
    assert not list(tmp_path.rglob("*evil*"))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=8,
)
paths = st.sampled_from(
    [
        *(
            "model",
            "task",
            "clean",
            "screens",
            "timing",
            "seed",
            "control",
            "model/n_layers",
            "model/n_heads",
        ),
        *(f"screens/induction{part}" for part in ("", "/heads", "/metrics", "/flags", "/taxonomy")),
        "task/name",
    ]
)


def test_a_file_of_another_try_is_refused(tmp_path: Path) -> None:
    make_cell(tmp_path / "a")
    make_cell(tmp_path / "b", seed=1)
    (tmp_path / "b" / "heads.parquet").replace(tmp_path / "a" / "heads.parquet")
    with pytest.raises(UserError, match="damaged or changed") as caught:
        read_cell(tmp_path / "a")
    assert caught.value.where == str(tmp_path / "a" / "heads.parquet")


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=paths, value=json_values)
def test_no_content_of_a_result_costs_more_than_a_clear_error(tmp_path: Path, path: str, value: Any) -> None:
    (tmp_path / "result.json").write_text(json.dumps(spoilt({path: value})))
    try:
        row = read_result(tmp_path)
    except UserError:
        return
    for screen in row["screens"].values():
        assert all(
            0 <= a < row["model"]["n_layers"] and 0 <= b < row["model"]["n_heads"] for a, b in screen["heads"]
        )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(FILES), at=st.floats(0, 1), junk=st.binary(min_size=1, max_size=40))
def test_damaged_files_cost_a_clear_error_at_most(tmp_path: Path, name: str, at: float, junk: bytes) -> None:
    folder = tmp_path / "cell"
    if not folder.exists():
        make_cell(folder, layers=2, heads=3, sets=3, n=2)
        row = json.loads((folder / "result.json").read_text())  # the readers must hold without digests
        (folder / "result.json").write_text(json.dumps({**row, "files": {}}))
    content = (folder / name).read_bytes()
    place = int(at * len(content))
    try:
        (folder / name).write_bytes(content[:place] + junk + content[place + len(junk) :])
        read_cell(folder)
    except UserError as error:
        assert str(folder / name) in error.where
    finally:
        (folder / name).write_bytes(content)


def test_only_finished_cells_are_found(tmp_path: Path) -> None:
    make_cell(tmp_path / "b")
    make_cell(tmp_path / "a" / "0")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / f".result.json.{os.getpid()}.tmp").write_text("{")
    (tmp_path / ".trash").mkdir()
    (tmp_path / ".trash" / "result.json").write_text("{}")
    assert list(find_cells(tmp_path)) == [tmp_path / "a" / "0", tmp_path / "b"]
