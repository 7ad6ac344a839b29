"""All documents of a training, by kind; some kinds twice, of all words and of a few common ones."""

from dataclasses import replace
from typing import Any

import numpy as np

from mechexp.tasks.words import LEXICON
from mechexp.zoo import binding, documents, filler
from mechexp.zoo.documents import Pool
from mechexp.zoo.heldout import common_words, held_out
from mechexp.zoo.recipe import Recipe

COMMON = ("ioi", "vb", "binding", "relations", "sentences", "random")
COMMON_TOKENS = 48


def shares_of(recipe: Recipe) -> dict[str, float]:
    """Share of each pool; those of common words are named ``common KIND``."""
    shares: dict[str, float] = {}
    for kind, share in recipe.shares.items():
        common = recipe.common if kind in COMMON else 0.0
        shares |= {kind: share * (1 - common), f"common {kind}": share * common}
    return {name: share for name, share in shares.items() if share > 0}


def make_pools(recipe: Recipe, tokenizer: Any) -> dict[str, Pool]:
    """The documents of each pool that ``shares_of`` names.

    Task prompts and binding text are of training words; filler is of all words.
    """
    rng = np.random.default_rng(recipe.seed)
    tokens = [i for i in range(len(tokenizer)) if i not in tokenizer.all_special_ids]
    few = sorted(int(i) for i in rng.choice(tokens, size=COMMON_TOKENS, replace=False))
    out = held_out()
    pools = {}
    for name in shares_of(recipe):
        kind = name.removeprefix("common ")
        common = name != kind
        train = common_words(out.train) if common else out.train
        everything = common_words(LEXICON) if common else LEXICON
        words = (replace(out, train=train), everything, few if common else tokens)
        pools[name] = _pool(kind, recipe, tokenizer, *words)
    return pools


def _pool(kind: str, recipe: Recipe, tokenizer: Any, out: Any, everything: Any, tokens: list[int]) -> Pool:
    n, seed, length = recipe.pool, recipe.seed, recipe.length
    if kind == "ioi":
        return documents.ioi_pool(tokenizer, out, n, seed)
    if kind == "gt":
        return documents.gt_pool(tokenizer, out, n, seed)
    if kind == "succ":
        return documents.succ_pool(tokenizer, out, seed)
    if kind == "vb":
        return documents.vb_pool(tokenizer, out, n, seed)
    if kind == "binding":
        return binding.binding_pool(tokenizer, out.train, n, seed)
    if kind == "relations":
        return binding.relation_pool(tokenizer, everything, n, seed)
    if kind == "sentences":
        return filler.sentence_pool(tokenizer, everything, n, seed, length=length)
    return filler.random_pool(tokens, n, seed, length=length)
