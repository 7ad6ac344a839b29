"""The folder that a few steps of training leave, and what ``check`` finds wrong with it."""

import json
import shutil
from dataclasses import replace

import pytest
import torch

from mechexp.models import load_model
from mechexp.zoo.__main__ import main
from mechexp.zoo.check import check_accuracies, check_files
from mechexp.zoo.evaluation import TASKS
from mechexp.zoo.recipe import RECIPES
from mechexp.zoo.shipping import ship
from mechexp.zoo.training import train

MODELS = [
    name if name == "tiny_olmoe" else pytest.param(name, marks=pytest.mark.slow) for name in sorted(RECIPES)
]


@pytest.fixture(scope="module", params=MODELS)
def folder(request, tmp_path_factory):
    recipe = replace(RECIPES[request.param], steps=3, pool=400, rows=4, checkpoints=(1, 2), curve_every=2)
    place = tmp_path_factory.mktemp("zoo") / request.param
    ship(train(recipe, tell=lambda line: None), place)
    return place


@pytest.fixture
def copy(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / folder.name)


def test_the_folder_loads_as_a_model_and_so_do_its_checkpoints(folder):
    last, first = (load_model(place, device="cpu") for place in (folder, folder / "checkpoints" / "step_1"))
    assert (last.n_layers, last.n_heads, last.head_dim) == (4, 8, 24)
    assert last.weights_hash != first.weights_hash
    assert all(p.dtype == torch.float32 for p in last.model.parameters())
    assert (folder / "model.safetensors").stat().st_size <= 4 * 2**20


def test_the_recipe_says_what_was_seen(folder):
    recipe = json.loads((folder / "recipe.json").read_text())
    assert list(recipe["tokens_seen"]) == ["step_1", "step_2", "step_3"]
    assert recipe["tokens_seen"]["step_1"] < recipe["tokens_seen"]["step_3"]
    assert folder.name in (folder / "README.md").read_text()


def test_stored_accuracies_are_those_of_the_stored_weights(folder):
    assert check_files(folder) == []
    found, faults = check_accuracies(folder)
    written = json.loads((folder / "accuracies.json").read_text())
    assert found["held_out"].keys() == set(TASKS)
    assert found == written
    assert faults and all("below" in fault for fault in faults)


@pytest.mark.parametrize("name", ["model.safetensors", "recipe.json", "checkpoints/step_2/model.safetensors"])
def test_check_finds_a_changed_file(copy, capsys, name):
    data = bytearray((copy / name).read_bytes())
    data[len(data) // 2] ^= 1
    (copy / name).write_bytes(data)
    assert main(["check", copy.name, "--folder", str(copy.parent)]) == 1
    assert f"{name} is changed" in capsys.readouterr().err


def test_check_finds_missing_and_extra_files(copy):
    (copy / "curves.csv").unlink()
    (copy / "extra.txt").write_text("x")
    assert check_files(copy) == ["curves.csv is missing", "extra.txt is not listed in SHA256SUMS"]


def test_check_finds_an_accuracy_that_is_not_true(copy):
    written = json.loads((copy / "accuracies.json").read_text())
    written["default"]["gt"] += 0.05
    (copy / "accuracies.json").write_text(json.dumps(written))
    assert any("default gt" in fault for fault in check_accuracies(copy)[1])


def test_mistakes_exit_with_2(tmp_path, capsys):
    assert main(["check", "nothing_of_the_kind"]) == 2
    assert main(["check", "--folder", str(tmp_path)]) == 2
    assert main(["train", "tiny_olmo", "--seed", "-1", "--output", str(tmp_path / "x")]) == 2
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    assert main(["train", "tiny_olmo", "--output", str(tmp_path / "full")]) == 2
    assert (tmp_path / "full" / "file").read_text() == "mine"
    assert main(["train", "no_such_model"]) == 2
    capsys.readouterr()
