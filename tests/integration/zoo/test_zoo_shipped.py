"""The trained models that the package ships: whole, as good as they say, and loadable under their names."""

import pytest

from mechexp.models import load_model
from mechexp.zoo.check import check_files
from mechexp.zoo.evaluation import PASS, TASKS, accuracies, held_out_prompts
from mechexp.zoo.recipe import RECIPES
from mechexp.zoo.shipping import SUMS, WEIGHTS

SHIPPED = sorted(path.parent.name for path in WEIGHTS.glob(f"*/{SUMS}"))
CLASSES = {"tiny_pythia": "GPTNeoXForCausalLM", "tiny_olmo": "OlmoForCausalLM"}


@pytest.mark.parametrize("name", SHIPPED)
def test_files_are_what_was_shipped(name):
    assert check_files(WEIGHTS / name) == []
    assert (WEIGHTS / name / "model.safetensors").stat().st_size <= 4 * 2**20
    assert len(list((WEIGHTS / name / "checkpoints").glob("step_*/model.safetensors"))) >= 3


@pytest.mark.parametrize("name", SHIPPED)
def test_held_out_accuracy(name):
    loaded = load_model(name, device="cpu")
    assert type(loaded.model).__name__ == CLASSES.get(name, "OlmoeForCausalLM")
    found = accuracies(loaded.model, held_out_prompts(loaded.tokenizer))
    assert set(found) == set(TASKS)
    learns = RECIPES[name].learns
    assert {task: found[task] for task in learns if found[task] < PASS} == {}
