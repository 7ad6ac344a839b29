"""Kept patterns are the model's own attention, of the picked heads, on prompts that heads were picked on."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mechexp.models.attention import attention_patterns
from mechexp.models.heads import Head
from mechexp.protocols import patterns
from mechexp.screens.circuit import Circuit
from mechexp.tasks.prompts import PromptSet, TextPrompt
from mechexp.tracking.validate import check_patterns

HEADS = (Head(1, 3), Head(0, 1))


def circuit(loaded: Any, name: str, heads: tuple[Head, ...]) -> Circuit:
    return Circuit(name, heads, loaded.id, "", loaded.weights_hash, loaded.geometry)


def prompts(lengths: list[int], halves: list[str]) -> PromptSet:
    rng, n = np.random.default_rng(0), len(lengths)
    ids = tuple(tuple(int(i) for i in rng.integers(5, 40, size)) for size in lengths)
    return PromptSet(
        task="custom",
        texts=tuple(TextPrompt(f"p{i}", ("a",), ("b",)) for i in range(n)),
        ids=ids,
        positions=tuple({"io": 1, "end": len(row) - 1} for row in ids),
        targets=((1,),) * n,
        distractors=((2,),) * n,
        counterfactual_ids=(None,) * n,
        half=tuple(halves),
    )


@pytest.mark.parametrize("family", ["llama", "gpt_neox"])
def test_patterns_are_the_models_own(micro_model: Callable[[str], Any], family: str) -> None:
    import torch

    loaded = micro_model(family)
    ids = list(range(5, 14))
    out = loaded.model(input_ids=torch.tensor([ids]), output_attentions=True, use_cache=False)
    for head, pattern_TT in attention_patterns(loaded, ids, HEADS).items():
        assert torch.allclose(pattern_TT, out.attentions[head.layer][0, head.head].float(), atol=1e-6)


def test_what_is_kept(micro_model: Callable[[str], Any]) -> None:
    loaded = micro_model("llama")
    asked = prompts([6, 7, 500, 6, 8, 9], ["test", "screen", "screen", "screen", "screen", "screen"])
    kept = patterns.keep_patterns(
        loaded, asked, [circuit(loaded, "a", HEADS), circuit(loaded, "b", HEADS[:1])]
    )
    check_patterns(kept, "kept")
    assert kept["heads"] == ["L1H3", "L0H1"]
    assert [p["index"] for p in kept["prompts"]] == [1, 3, 4]  # not the test half, not the long one
    assert kept["prompts"][0]["positions"] == {"io": 1, "end": 6}
    found = attention_patterns(loaded, list(asked.ids[3]), HEADS)
    for h, head in enumerate(HEADS):
        rows = kept["per_mille"][h][1]
        for t, row in enumerate(rows):
            np.testing.assert_allclose(np.array(row) / 1000, found[head][t, : t + 1].numpy(), atol=6e-4)


def test_every_circuit_keeps_its_best_heads_first(micro_model: Callable[[str], Any]) -> None:
    loaded = micro_model("llama")
    every = tuple(Head(l, h) for l in range(loaded.n_layers) for h in range(loaded.n_heads))
    heads = patterns._heads([circuit(loaded, "a", every), circuit(loaded, "b", every[::-1])])
    assert heads[:2] == [every[0], every[-1]] and len(heads) == len(set(heads)) <= patterns.HEADS


def test_nothing_is_kept_without_heads_or_short_prompts(micro_model: Callable[[str], Any]) -> None:
    loaded = micro_model("llama")
    for asked, heads in ((prompts([6], ["screen"]), ()), (prompts([500], ["screen"]), HEADS)):
        kept = patterns.keep_patterns(loaded, asked, [circuit(loaded, "a", heads)])
        check_patterns(kept, "kept")
        assert kept["prompts"] == [] and kept["heads"] == []


def test_token_texts_join_to_the_prompt() -> None:
    from mechexp import load_model, make_prompts

    loaded = load_model("planted")
    row = make_prompts("planted", loaded, n=20)
    texts = patterns._tokens(loaded, row.ids[0])
    assert "".join(texts) == row.texts[0].prompt and len(texts) == len(row.ids[0])
