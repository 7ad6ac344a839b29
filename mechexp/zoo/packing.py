"""Batches: several documents in a row, each seeing only itself, as if it stood alone at position 0.

Positions are rotary, thus relative: a document in the middle of a row is what it is at its start.

Shapes: B rows, T positions.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mechexp.zoo.documents import Document, Pool


@dataclass(frozen=True)
class Batch:
    """What one training step reads.

    Attributes:
        ids_BT: Token ids.
        mask_B1TT: Additive attention mask: 0 where a position may look, else the lowest float32.
        weights_BT: Loss weight of predicting the token at each position.
        tokens: Tokens in it that are not padding.
    """

    ids_BT: Tensor
    mask_B1TT: Tensor
    weights_BT: Tensor
    tokens: int


def batches(
    pools: Mapping[str, Pool], shares: Mapping[str, float], *, rows: int, length: int, pad: int, seed: int
) -> Iterator[Batch]:
    """Endless batches; each document is drawn from a pool chosen with the probability ``shares`` gives it."""
    rng = np.random.default_rng(seed)
    names = sorted(shares)
    chances = np.array([shares[name] for name in names]) / sum(shares.values())
    order = {name: rng.permutation(len(pools[name])) for name in names}
    used = dict.fromkeys(names, 0)

    def draw() -> Document:
        name = names[int(rng.choice(len(names), p=chances))]
        if used[name] == len(pools[name]):
            order[name], used[name] = rng.permutation(len(pools[name])), 0
        used[name] += 1
        return pools[name][int(order[name][used[name] - 1])]

    waiting = draw()
    while True:
        filled: list[list[Document]] = []
        room = 0
        while len(filled) < rows or len(waiting.ids) <= room:
            if len(waiting.ids) > room:
                filled.append([])
                room = length
            filled[-1].append(waiting)
            room -= len(waiting.ids)
            waiting = draw()
        yield pack(filled, length=length, pad=pad)


def pack(filled: list[list[Document]], *, length: int, pad: int) -> Batch:
    """Lay the documents of each row side by side and keep them apart in the attention mask."""
    ids = np.full((len(filled), length), pad)
    weights = np.zeros(ids.shape, dtype=np.float32)
    owner = np.zeros(ids.shape, dtype=np.int64)
    for row, documents in enumerate(filled):
        at = 0
        for number, document in enumerate(documents, start=1):
            span = slice(at, at + len(document.ids))
            ids[row, span], weights[row, span], owner[row, span] = document.ids, document.weights, number
            at += len(document.ids)
    own_BT = torch.from_numpy(owner)
    sees_BTT = (own_BT[:, :, None] == own_BT[:, None, :]) & torch.ones(length, length).tril().bool()
    mask_BTT = torch.zeros(sees_BTT.shape).masked_fill(~sees_BTT, torch.finfo(torch.float32).min)
    return Batch(torch.from_numpy(ids), mask_BTT[:, None], torch.from_numpy(weights), int((owner > 0).sum()))
