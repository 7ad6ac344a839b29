"""How many prompts, which ones, and which half each belongs to: seeded, without duplicates, balanced."""

from collections.abc import Sequence
from itertools import chain

import numpy as np

from mechexp.errors import UserError

# Beyond this, "all that the task can make" is a slip rather than a wish.
MAX_ALL = 100_000


def wanted(n: int, possible: int, *, task: str) -> int:
    """Number of prompts to make.

    Args:
        n: What the user asked for; -1 is all.
        possible: How many different prompts there are.
        task: Task name, for messages.

    Raises:
        UserError: Fewer than two are asked for or possible, or more than there are.
    """
    where = f"task.n={n}, task={task}"
    if possible < 2:
        raise UserError(
            f"the task can make {possible} different prompts here, fewer than two",
            where=where,
            todo="choose another model, or other options of the task",
        )
    if n == -1:
        if possible > MAX_ALL:
            raise UserError(
                f"this task can make {possible:,} different prompts, too many to run them all",
                where=where,
                expected=f"-1 (all) only where there are at most {MAX_ALL:,}",
                todo="say how many you want, for example task.n=500",
            )
        return possible
    if n < 2:
        raise UserError(
            f"{n} prompts are too few", where=where, expected=f"2 to {possible}, or -1 for all there are"
        )
    if n > possible:
        raise UserError(
            f"the task can make at most {possible} different prompts here",
            where=where,
            expected=f"2 to {possible}",
        )
    return n


def sample_cells(n: int, *, templates: int, cells: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Draw ``n`` different (template, cell) pairs, the same number of each template (±1), shuffled.

    Args:
        n: At most ``templates * cells``.
        templates: Number of wordings.
        cells: Number of ways to fill a wording.
        rng: Source of randomness.
    """
    share, extra = divmod(n, templates)
    lucky = set(rng.permutation(templates)[:extra].tolist())
    pairs = [
        (template, int(cell))
        for template in range(templates)
        for cell in rng.choice(cells, size=share + (template in lucky), replace=False)
    ]
    return [pairs[i] for i in rng.permutation(n)]


def two_of(index: int, n: int) -> tuple[int, int]:
    """The ``index``-th ordered pair of different numbers below ``n``; there are n (n − 1)."""
    first, second = divmod(index, n - 1)
    return first, second + (second >= first)


def unravel(index: int, *sizes: int) -> tuple[int, ...]:
    """Digits of ``index`` in the mixed base ``sizes``, last one fastest."""
    return tuple(int(i) for i in np.unravel_index(index, sizes))


def halves(templates: Sequence[str], rng: np.random.Generator) -> tuple[str, ...]:
    """Assign each prompt to the ``screen`` or the ``test`` half, every template to both alike (±1)."""
    groups = [[i for i, t in enumerate(templates) if t == name] for name in sorted(set(templates))]
    order = list(chain.from_iterable(rng.permutation(group).tolist() for group in groups))
    half = [""] * len(templates)
    for rank, i in enumerate(order):
        half[i] = ("screen", "test")[rank % 2]
    return tuple(half)
