"""How the zoo's models are trained: all that decides the result, saved beside the weights."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from mechexp.errors import UserError

SHARES: Mapping[str, float] = {
    "ioi": 0.22,
    "gt": 0.06,
    "succ": 0.16,
    "vb": 0.05,
    "binding": 0.20,
    "relations": 0.10,
    "sentences": 0.06,
    "random": 0.15,
}
"""Share of each kind among the documents."""


@dataclass(frozen=True)
class Recipe:
    """Settings of one training.

    Attributes:
        name: The model, a key of ``ARCHITECTURES``.
        seed: Seed of the first weights, the documents and their order.
        steps: Optimizer steps.
        rows: Rows of a batch.
        length: Tokens of a row.
        pool: Documents made of each kind.
        embedding_scale: Standard deviation of the first embeddings. The stock 0.02 is small against the
            optimizer's steps: words of one kind, which all get the same push, would be hard to tell apart.
        unembedding_scale: Standard deviation of the first unembedding, a copy of the embeddings.
        match_scale: Size of the first query and key weights, which are equal: orthonormal rows times this.
        carry_scale: Size of the first map from values to outputs, a projection times this.
        muon_rate: Peak learning rate of Muon, for the matrices inside the layers.
        adamw_rate: Peak learning rate of AdamW, for all other weights.
        warmup: Steps of linear warm-up; a cosine down to a twentieth follows.
        weight_decay: Muon's.
        betas: AdamW's.
        clip: Largest gradient norm.
        router_loss: Weight of the load-balancing loss of models with several experts.
        checkpoints: Steps after which weights are kept, beside the last.
        curve_every: Steps between two points of the curves.
        shares: Share of each kind of document.
        learns: Tasks that a training must learn to pass.
        common: Share of documents made of few common words. A skewed use of words, as in natural text, makes
            the matching of equal words easier to find; rare words follow.
    """

    name: str
    seed: int = 0
    steps: int = 1300
    rows: int = 32
    length: int = 64
    pool: int = 6_000
    embedding_scale: float = 0.7
    unembedding_scale: float = 0.06
    match_scale: float = 0.7
    carry_scale: float = 0.5
    muon_rate: float = 0.005
    adamw_rate: float = 7e-4
    warmup: int = 50
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.98)
    clip: float = 1.0
    router_loss: float = 0.01
    checkpoints: tuple[int, ...] = (100, 300, 600)
    curve_every: int = 100
    shares: Mapping[str, float] = field(default_factory=lambda: dict(SHARES))
    common: float = 0.3
    learns: tuple[str, ...] = ("ioi", "gt", "succ")

    def as_json(self) -> dict[str, Any]:
        """All settings, for ``recipe.json``."""
        return asdict(self)


def recipe_for(name: str, *, seed: int | None = None, steps: int | None = None) -> Recipe:
    """The recipe of a shipped model, with another seed or number of steps where given.

    Raises:
        UserError: A seed or number of steps that cannot be used.
    """
    recipe = RECIPES[name]
    if seed is not None and seed < 0:
        raise UserError(f"--seed {seed}", expected="0 or more")
    if steps is not None and steps < 1:
        raise UserError(f"--steps {steps}", expected="1 or more")
    return replace(
        recipe,
        seed=recipe.seed if seed is None else seed,
        steps=recipe.steps if steps is None else steps,
    )


RECIPES = {
    "tiny_pythia": Recipe("tiny_pythia", learns=("gt", "succ")),
    "tiny_olmo": Recipe("tiny_olmo", learns=("ioi", "succ")),
    "tiny_olmoe": Recipe("tiny_olmoe"),
    "tiny_olmoe_dense": Recipe("tiny_olmoe_dense"),
}
"""Recipe of each model of the zoo. Nothing has learned ``vb``; two just miss the bar on another task."""
