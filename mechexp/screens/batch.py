"""Random-token sequences with one planted induction pair, on which the general screens read attention.

Shapes: P sequences, T tokens.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mechexp.errors import UserError

CLASSES = ("induction", "duplicate_token", "prev_token", "bos", "self", "local")
N_BASELINE = 50


@dataclass(frozen=True)
class RandomBatch:
    """Sequences ``… A B … A``: A and B stand at ``pair_at``, ``pair_at + 1``; the last token is A again.

    Attributes:
        ids_PT: Token ids.
        pair_at_P: Position of the first A in each sequence.
        baseline_PT: Whether a position belongs to the sequence's baseline: up to 50 fixed random positions
            that no class attends to.
    """

    ids_PT: NDArray[np.int64]
    pair_at_P: NDArray[np.int64]
    baseline_PT: NDArray[np.bool_]

    def targets_PT(self, name: str) -> NDArray[np.bool_]:
        """The positions that class ``name`` attends to from the last position (Xu 2026)."""
        n, length = self.ids_PT.shape
        at = np.arange(length)[None, :]
        pair = self.pair_at_P[:, None]
        masks: dict[str, NDArray[np.bool_]] = {
            "induction": at == pair + 1,
            "duplicate_token": at == pair,
            "prev_token": np.broadcast_to(at == length - 2, (n, length)),
            "bos": np.broadcast_to(at == 0, (n, length)),
            "self": np.broadcast_to(at == length - 1, (n, length)),
            "local": np.broadcast_to((at >= length - 6) & (at <= length - 3), (n, length)),
        }
        return masks[name]


def make_batch(vocabulary: NDArray[np.int64], *, sequences: int, length: int, seed: int) -> RandomBatch:
    """Draw the sequences; the same arguments give the same batch.

    Args:
        vocabulary: Usable token ids (no special tokens).
        sequences: Number of sequences P.
        length: Tokens a sequence T, at least 24 so that the classes' positions do not overlap.
        seed: Seed of the draw.

    Raises:
        UserError: The length or the vocabulary is too small.
    """
    if length < 24:
        raise UserError(
            f"screen length {length} is too short",
            where="screen.length (or model.screen_length)",
            expected="at least 24 tokens: the six classes' positions must not overlap",
        )
    if len(vocabulary) < 16:
        raise UserError(f"only {len(vocabulary)} usable tokens", expected="at least 16 for random sequences")
    rng = np.random.default_rng(seed)
    ids, pairs = [], []
    baseline = np.zeros((sequences, length), dtype=bool)
    for p in range(sequences):
        a, b = rng.choice(vocabulary, size=2, replace=False)
        others = vocabulary[(vocabulary != a) & (vocabulary != b)]
        row = rng.choice(others, size=length)
        # at most T − 8 keeps the pair clear of the local and prev_token positions in short sequences
        at = int(rng.integers(max(1, length // 12), min(length // 2, length - 8)))
        row[at], row[at + 1], row[-1] = a, b, a
        taken = {0, at, at + 1, *range(length - 6, length)}
        free = np.array([t for t in range(length) if t not in taken])
        baseline[p, rng.choice(free, size=min(N_BASELINE, len(free)), replace=False)] = True
        ids.append(row)
        pairs.append(at)
    return RandomBatch(np.stack(ids).astype(np.int64), np.array(pairs, dtype=np.int64), baseline)


def usable_vocabulary(tokenizer: object, vocab_size: int) -> NDArray[np.int64]:
    """Token ids that text can hold: all but special and added tokens and ids the tokenizer does not know."""
    special = set(getattr(tokenizer, "all_special_ids", None) or [])
    added = getattr(tokenizer, "added_tokens_decoder", None) or {}
    special |= {int(i) for i, token in added.items() if getattr(token, "special", False)}
    known = len(tokenizer) if hasattr(tokenizer, "__len__") else vocab_size
    return np.array([i for i in range(min(vocab_size, known)) if i not in special], dtype=np.int64)
