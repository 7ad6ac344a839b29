"""Vectors that words and places are coded by, such that attention can find one among many.

Shapes: V words, T positions, F frequencies, C = 8 dimensions of a word's code.
"""

from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

CODE = 8
PERIOD = 64  # positions repeat after this many: the longest sequence
PLACE_FREQUENCIES = (7, 11, 12, 21, 27, 29)  # their mean cosine is ≤ 0.3 at every distance but 0
FAR_FREQUENCIES = (1, 3)  # mean cosine ≤ 0.27 at distances 8 … 31: tells oneself from what is far back
NEAR_FREQUENCIES = (3, 22)  # mean cosine 0.2 at distance 1, ≤ -0.02 at 5 and 7 … 13
FREQUENCIES = tuple(sorted({*PLACE_FREQUENCIES, *FAR_FREQUENCIES, *NEAR_FREQUENCIES}))


def word_codes(count: int, rng: np.random.Generator) -> Floats:
    """Unit vectors, (V, 8), no two closer than 60°: roots of E8, of which there are 240.

    The closest packing that 8 dimensions allow: a query that matches one of them scores at least twice as
    high there as anywhere else.
    """
    roots = []
    for i, j in combinations(range(CODE), 2):
        for signs in product((-1, 1), repeat=2):
            root = np.zeros(CODE)
            root[[i, j]] = signs
            roots.append(root)
    roots += [np.array(s) / 2 for s in product((-1, 1), repeat=CODE) if np.prod(s) > 0]
    all_roots: Floats = np.stack(roots) / np.sqrt(2)
    return all_roots[rng.permutation(len(all_roots))[:count]]


def place_codes(length: int) -> Floats:
    """Cosine and sine of each position at each frequency, (T, F, 2)."""
    angle_TF = 2 * np.pi * np.outer(np.arange(length), FREQUENCIES) / PERIOD
    codes: Floats = np.stack([np.cos(angle_TF), np.sin(angle_TF)], axis=-1)
    return codes


def turn_back(frequency: int, offset: int) -> Floats:
    """The rotation, (2, 2), that turns the code of position t into that of t − offset."""
    angle = -2 * np.pi * frequency * offset / PERIOD
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def quarter_turn(rng: np.random.Generator) -> Floats:
    """A random orthogonal antisymmetric matrix, (8, 8): what it makes of a code is at right angles to it."""
    basis, _ = np.linalg.qr(rng.normal(size=(CODE, CODE)))
    block: Floats = np.kron(np.eye(CODE // 2), np.array([[0.0, -1.0], [1.0, 0.0]]))
    turned: Floats = basis @ block @ basis.T
    return turned
