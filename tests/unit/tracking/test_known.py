"""The index of finished cells: only whole results of that very cell are given back."""

import json
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from factories import make_cell

from mechexp.errors import UserError
from mechexp.tracking.known import FOLDER, look_up, remember
from mechexp.tracking.results import read_result


@pytest.fixture
def cell(tmp_path: Path) -> Path:
    make_cell(tmp_path / "cell")
    remember(tmp_path / "root", tmp_path / "cell")
    return tmp_path / "cell"


def key_of(cell: Path) -> str:
    return str(read_result(cell)["cell_key"])


def test_a_finished_cell_is_found_with_its_circuits(tmp_path: Path, cell: Path) -> None:
    known = look_up(tmp_path / "root", key_of(cell))
    assert known.files is not None and known.files.folder == cell.resolve() and known.why == str(cell)
    assert {c.screen for c in known.circuits} == set(known.files.screens)
    assert look_up(tmp_path / "root", "0" * 32).why == "no result yet"
    assert look_up(tmp_path / "nowhere", key_of(cell)).files is None


def cut(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


@pytest.mark.parametrize(
    "name", ["result.json", "heads.parquet", "conditions.parquet", "prompts.jsonl", "config.yaml"]
)
@pytest.mark.parametrize("damage", [cut, flip, Path.unlink])
def test_a_damaged_result_is_not_taken(
    name: str, damage: Callable[[Path], None], tmp_path: Path, cell: Path
) -> None:
    key = key_of(cell)
    damage(cell / name)
    known = look_up(tmp_path / "root", key)
    assert known.files is None and known.why.startswith("not whole any more: ")


@pytest.mark.parametrize("change", [lambda t: "{", lambda t: t.replace('"L', '"L9', 1), None])
def test_circuits_that_do_not_fit_are_not_taken(
    change: Callable[[str], str] | None, tmp_path: Path, cell: Path
) -> None:
    circuit = next((cell / "circuits").glob("*.json"))
    if change:
        circuit.write_text(change(circuit.read_text()))
    else:
        circuit.unlink()
    assert look_up(tmp_path / "root", key_of(cell)).files is None


def test_a_result_without_digests_is_not_trusted(tmp_path: Path) -> None:
    make_cell(tmp_path / "cell")
    row = json.loads((tmp_path / "cell" / "result.json").read_text())
    row["files"] = {"config.yaml": row["files"]["config.yaml"]}
    (tmp_path / "cell" / "result.json").write_text(json.dumps(row))
    remember(tmp_path / "root", tmp_path / "cell")
    assert look_up(tmp_path / "root", row["cell_key"]).files is None


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"schema": "mechexp.known/1"}', '{"schema": "mechexp.known/1", "folder": 3}',
     '{"schema": "mechexp.known/1", "folder": "/\\u0000", "result_id": "x"}', "[" * 50_000, "x" * 100_000],
)  # fmt: skip
def test_a_bad_entry_hides_no_good_one(text: str, tmp_path: Path, cell: Path) -> None:
    place = tmp_path / "root" / FOLDER / key_of(cell)
    (place / "zz.json").write_text(text)
    (place / ".half.json.1.tmp").write_text("{")
    future = 4e9
    os.utime(place / "zz.json", (future, future))
    assert look_up(tmp_path / "root", key_of(cell)).files is not None


def test_the_entry_of_another_cell_is_not_believed(tmp_path: Path, cell: Path) -> None:
    make_cell(tmp_path / "other", "pythia")
    place = tmp_path / "root" / FOLDER
    key = key_of(tmp_path / "other")
    shutil.copytree(place / key_of(cell), place / key)
    assert "another cell" in look_up(tmp_path / "root", key).why


def test_a_copy_is_taken_where_the_first_is_gone(tmp_path: Path, cell: Path) -> None:
    shutil.copytree(cell, tmp_path / "copy")
    row = json.loads((tmp_path / "copy" / "result.json").read_text())
    (tmp_path / "copy" / "result.json").write_text(json.dumps({**row, "sweep_id": "s"}))
    remember(tmp_path / "root", tmp_path / "copy")
    shutil.rmtree(cell)
    known = look_up(tmp_path / "root", row["cell_key"])
    assert known.why == str(tmp_path / "copy")


def test_many_writers_at_once(tmp_path: Path) -> None:
    folders = [tmp_path / f"cell{i}" for i in range(8)]
    for i, folder in enumerate(folders):
        make_cell(folder, sweep_id=f"s{i}")
    threads = [threading.Thread(target=remember, args=(tmp_path / "root", f)) for f in folders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    place = tmp_path / "root" / FOLDER / key_of(folders[0])
    assert len(list(place.iterdir())) == 8
    assert look_up(tmp_path / "root", key_of(folders[0])).files is not None


@pytest.mark.parametrize("key", ["../../etc", "", "ABC", "0" * 80, "a/b" * 8])
def test_a_key_is_no_path(key: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no cell key"):
        look_up(tmp_path, key)


def test_an_index_that_cannot_be_written_costs_no_result(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_cell(tmp_path / "cell")
    (tmp_path / "root").write_text("a file")
    remember(tmp_path / "root", tmp_path / "cell")
    assert "will not be found" in caplog.text
