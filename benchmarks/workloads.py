"""The four workloads, as conditions on random-token prompts."""

from dataclasses import dataclass

import numpy as np

from mechexp.engine import Condition
from mechexp.models.heads import Head
from mechexp.models.loaded import LoadedModel
from mechexp.tasks.prompts import PromptSet, TextPrompt


@dataclass(frozen=True)
class Workload:
    """Conditions that belong together.

    Attributes:
        name: Short name.
        title: What it is.
        conditions: The conditions.
    """

    name: str
    title: str
    conditions: tuple[Condition, ...]


def random_prompts(loaded: LoadedModel, count: int, length: int, seed: int = 0) -> PromptSet:
    """Prompts of random tokens of one length, each with a counterfactual."""
    rng = np.random.default_rng(seed)
    top = int(loaded.model.config.vocab_size)

    def draw() -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(int(i) for i in row) for row in rng.integers(100, top, size=(count, length)))

    return PromptSet(
        task="random",
        texts=tuple(TextPrompt(str(i), ("a",), ("b",)) for i in range(count)),
        ids=draw(),
        positions=({"end": length - 1},) * count,
        targets=((5,),) * count,
        distractors=((6,),) * count,
        counterfactual_ids=draw(),
        half=("test",) * count,
    )


def workloads(loaded: LoadedModel, *, sets: int = 99, nested: int = 20, seed: int = 0) -> list[Workload]:
    """Single-head sweep, nulls of five circuits, nested head sets, end-position patching of all heads."""
    rng = np.random.default_rng(seed)
    heads = [Head(layer, head) for layer in range(loaded.n_layers) for head in range(loaded.n_heads)]
    order = [heads[i] for i in rng.permutation(len(heads))]
    groups: list[Condition] = []
    for _ in range(5):
        circuit = [heads[i] for i in rng.choice(len(heads), size=5, replace=False)]
        groups.append(Condition(tuple(circuit), "zero"))
        for _ in range(sets):
            drawn = {Head(h.layer, int(rng.integers(loaded.n_heads))) for h in circuit}
            groups.append(Condition(tuple(drawn), "zero"))
    groups = list({c.key: c for c in groups}.values())
    deepest = range(1, min(nested, len(heads)) + 1)
    return [
        Workload("single", "every head alone", tuple(Condition((h,), "zero") for h in heads)),
        Workload("nulls", f"five circuits of 5 heads, {sets} matched sets each", tuple(groups)),
        Workload("nested", "growing head sets", tuple(Condition(tuple(order[:k]), "zero") for k in deepest)),
        Workload(
            "end",
            "every head patched at the end position",
            tuple(Condition((h,), "resample", "end") for h in heads),
        ),
    ]
