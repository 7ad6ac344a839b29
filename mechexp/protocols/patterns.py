"""Attention patterns to look at: of some picked heads, on a few prompts, small enough to be kept with a cell.

Shapes: T tokens of a prompt.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mechexp.models import LoadedModel
from mechexp.models.heads import Head
from mechexp.screens.circuit import Circuit
from mechexp.tasks.prompts import PromptSet

SCHEMA = "mechexp.patterns/1"
PROMPTS = 3
LONGEST = (
    64  # tokens of a prompt whose pattern is kept: a page cannot show more, and files grow with its square
)
HEADS_A_SCREEN = 5
HEADS = 30


def keep_patterns(loaded: LoadedModel, prompts: PromptSet, circuits: Sequence[Circuit]) -> Mapping[str, Any]:
    """Patterns of the best heads of each circuit on the first short prompts of the screen half.

    The screen half is the one on which the heads were picked, so this shows what the screens saw.

    Args:
        loaded: The model.
        prompts: All prompts of the cell; their order is that of ``prompts.jsonl``.
        circuits: The picked circuits.

    Returns:
        The content of ``patterns.json`` (docs/files.md); no prompts where all are too long.
    """
    heads = _heads(circuits)
    indices = _prompts(prompts) if heads else []
    kept: list[list[list[list[int]]]] = [[] for _ in heads]
    for index in indices:
        found = _measure(loaded, prompts.ids[index], heads)
        for row, head in zip(kept, heads, strict=True):
            row.append(found[head])
    shown = [
        {
            "index": index,
            "half": prompts.half[index],
            "tokens": _tokens(loaded, prompts.ids[index]),
            "positions": dict(prompts.positions[index]),
        }
        for index in indices
    ]
    names = [str(h) for h in heads] if shown else []
    return {"schema": SCHEMA, "prompts": shown, "heads": names, "per_mille": kept if shown else []}


def _heads(circuits: Sequence[Circuit]) -> list[Head]:
    """The best heads of each circuit, the best of all circuits first, so that each is there if any is cut."""
    ranks = range(HEADS_A_SCREEN)
    ordered = [c.heads[rank] for rank in ranks for c in circuits if rank < len(c.heads)]
    return list(dict.fromkeys(ordered))[:HEADS]


def _prompts(prompts: PromptSet) -> list[int]:
    """The first prompts of the screen half that are short enough; other wordings first, if there are some."""
    good = [
        i
        for i, (ids, half) in enumerate(zip(prompts.ids, prompts.half, strict=True))
        if half in ("screen", "both") and len(ids) <= LONGEST
    ]
    first = {prompts.texts[i].template: i for i in reversed(good)}.values()
    return [*sorted(first), *(i for i in good if i not in set(first))][:PROMPTS]


def _measure(loaded: LoadedModel, ids: Sequence[int], heads: Sequence[Head]) -> dict[Head, list[list[int]]]:
    """Each head's pattern in thousandths, row t from token t to the tokens 0 … t."""
    from mechexp.models.attention import attention_patterns

    found = {}
    for head, attention_TT in attention_patterns(loaded, list(ids), heads).items():
        whole = np.rint(attention_TT.numpy() * 1000).astype(int)
        found[head] = [whole[t, : t + 1].tolist() for t in range(len(ids))]
    return found


def _tokens(loaded: LoadedModel, ids: Sequence[int]) -> list[str]:
    """The stretch of text that each token adds, spaces included.

    A token that is a part of a character adds nothing readable by itself, and is shown as its own decoding.
    """
    texts, before = [], ""
    for t in range(len(ids)):
        now = str(loaded.tokenizer.decode(list(ids[: t + 1])))
        added = now[len(before) :] if now.startswith(before) else ""
        texts.append(added or str(loaded.tokenizer.decode([ids[t]])))
        before = now
    return texts
