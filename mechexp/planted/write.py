"""From a blueprint to the weights of a stock GPT-2 model.

The residual stream is split into orthogonal features: a large constant, the word, the place, "is first", the
previous word (what previous-token heads relay), the answer, the answer's kind, right answers among the
words, and scratch. Their directions are drawn at random among those at right angles to (1, …, 1), so
LayerNorm's mean is exactly 0; the constant is so much larger than all else that LayerNorm's scale is the same
everywhere within a percent.

Shapes: E residual, D head dim, F feature.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechexp.planted.blueprint import N_HEADS, N_LAYERS, Blueprint, HeadPlan
from mechexp.planted.codes import (
    CODE,
    FAR_FREQUENCIES,
    FREQUENCIES,
    NEAR_FREQUENCIES,
    PERIOD,
    PLACE_FREQUENCIES,
    place_codes,
    quarter_turn,
    turn_back,
    word_codes,
)
from mechexp.planted.words import KIND, WORDS

Floats = NDArray[np.float64]

HEAD_DIM = 12
D_MODEL = N_HEADS * HEAD_DIM
CONSTANT = 20.0
SCALE = float(np.sqrt(D_MODEL) / np.sqrt(CONSTANT**2 + 14))  # LayerNorm's, with the features' usual size
SHARP = 60.0  # attention score of a match; the runner-up has at most half of it
SINK = 12.0
LOGIT = 8.0  # logit difference of a support of 1
SCRATCH = 8


@dataclass(frozen=True)
class Features:
    """Where each feature lies in the residual stream: rows of an orthonormal basis, (F, E)."""

    constant: Floats
    word: Floats
    first: Floats
    previous: Floats
    answer: Floats
    kind: Floats
    scratch: Floats
    candidate: Floats
    place: Floats

    @classmethod
    def draw(cls, rng: np.random.Generator) -> "Features":
        """A random basis at right angles to (1, …, 1)."""
        sizes = (1, CODE, 1, CODE, CODE, 1, SCRATCH, CODE, 2 * len(FREQUENCIES))
        columns = np.column_stack([np.ones(D_MODEL), rng.normal(size=(D_MODEL, sum(sizes)))])
        basis_FE = np.linalg.qr(columns)[0].T[1:]
        return cls(*np.split(basis_FE, np.cumsum(sizes)[:-1]))

    def places(self, frequencies: tuple[int, ...]) -> Floats:
        """Rows of some frequencies, two each."""
        at = [FREQUENCIES.index(f) for f in frequencies]
        return np.concatenate([self.place[2 * i : 2 * i + 2] for i in at])


def write_model(blueprint: Blueprint, attn_implementation: str = "eager") -> Any:
    """A ``GPT2LMHeadModel`` in float32 that does what the blueprint says."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    rng = np.random.default_rng([blueprint.options.seed, 1])
    features = Features.draw(rng)
    config = GPT2Config(
        vocab_size=len(WORDS),
        n_positions=PERIOD,
        n_embd=D_MODEL,
        n_layer=N_LAYERS,
        n_head=N_HEADS,
        n_inner=1,  # no MLP: its weights stay 0
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=None,
        attn_implementation=attn_implementation,
    )
    model = GPT2LMHeadModel(config).float()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.fill_(1.0 if ".ln_" in name and name.endswith("weight") else 0.0)
        _embed(model, features, rng)
        for layer in range(N_LAYERS):
            plans = [h for h in blueprint.heads if h.layer == layer]
            _write_layer(model.transformer.h[layer].attn, plans, features, blueprint.noise, rng)
    return model.eval()


def _embed(model: Any, f: Features, rng: np.random.Generator) -> None:
    """Embeddings and unembedding."""
    codes = word_codes(len(WORDS), rng)
    kinds = np.array([KIND[w] for w in WORDS])[:, None]
    _set(model.transformer.wte.weight, codes @ f.word + (codes * (kinds > 0)) @ f.candidate)
    places = place_codes(PERIOD).reshape(PERIOD, -1) @ f.place + CONSTANT * f.constant
    places[0] += f.first[0]
    _set(model.transformer.wpe.weight, places)
    _set(model.lm_head.weight, LOGIT / SCALE * (codes @ f.answer + 0.5 * kinds @ f.kind))


def _write_layer(
    attention: Any, plans: list[HeadPlan], f: Features, noise: float, rng: np.random.Generator
) -> None:
    """Fused query, key and value weights (E × 3E, Conv1D) and the output projection (E × E)."""
    fused, out = np.zeros((D_MODEL, 3 * D_MODEL)), np.zeros((D_MODEL, D_MODEL))
    for plan in plans:
        columns = plan.head * HEAD_DIM
        for k, weights_DE in enumerate((*_look(plan, f), _read(plan, f))):
            start = k * D_MODEL + columns
            fused[:, start : start + len(weights_DE)] = weights_DE.T
        written = _write(plan, f, noise, rng)
        out[columns : columns + len(written)] = written
    _set(attention.c_attn.weight, fused)
    _set(attention.c_proj.weight, out)


def _look(plan: HeadPlan, f: Features) -> tuple[Floats, Floats]:
    """Query and key weights, (≤ D, E) each; scores come out as given here, whatever the head's width."""
    match = SHARP
    if plan.pattern in ("prev_token", "offset"):
        offset = 1 if plan.pattern == "prev_token" else plan.offset
        query = _turned(f, PLACE_FREQUENCIES, offset)
        key = f.places(PLACE_FREQUENCIES)
        gains = np.full(len(key), match / len(PLACE_FREQUENCIES))
    elif plan.pattern == "induction":
        query, key, gains = f.word, f.previous, np.full(CODE, match)
    elif plan.pattern == "duplicate_token":  # the same word, but not this very place
        query = np.concatenate([f.word, f.places(FAR_FREQUENCIES)])
        key = query
        gains = np.array([match] * CODE + [-SINK * 1.5 / len(FAR_FREQUENCIES)] * 2 * len(FAR_FREQUENCIES))
    elif plan.pattern == "suppression":  # the word that is predicted strongly enough; else this very place
        query = np.concatenate([f.answer, f.places(NEAR_FREQUENCIES)])
        key = np.concatenate([f.candidate, f.places(NEAR_FREQUENCIES)])
        gains = np.array([match] * CODE + [_threshold(plan) / len(NEAR_FREQUENCIES)] * 4)
    else:  # the first position
        query, key, gains = f.constant / CONSTANT, f.first, np.full(1, SINK)
    return query * (gains * np.sqrt(HEAD_DIM) / SCALE)[:, None], key / SCALE


def _threshold(plan: HeadPlan) -> float:
    """Gain of the suppression head's own place: halfway between the answer with and without its rival.

    The answer's score is ``SHARP`` · support; the place next to it, where the answer stands too, scores
    0.8 of the gain less than the head's own place.
    """
    return SHARP * (1.0 - plan.support / 2) / 0.8


def _turned(f: Features, frequencies: tuple[int, ...], offset: int) -> Floats:
    """Reads the code of the place ``offset`` before this one."""
    rows = [
        turn_back(w, offset) @ f.places((w,))
        for w in frequencies
    ]  # fmt: skip
    return np.concatenate(rows)


def _read(plan: HeadPlan, f: Features) -> Floats:
    """Value weights, (≤ D, E): z holds the code of the word that is read (or 1, for a constant head)."""
    if plan.role == "constant_interferer":
        return f.constant / CONSTANT / SCALE
    if plan.pattern == "suppression":  # looking at its own place, where filler stands, it writes nothing
        return f.candidate / SCALE
    return (f.previous if plan.pattern == "duplicate_token" else f.word) / SCALE


def _write(plan: HeadPlan, f: Features, noise: float, rng: np.random.Generator) -> Floats:
    """Output weights, (≤ D, E)."""
    if plan.role == "constant_interferer":  # the same for every prompt: words of the wrong kind gain
        return plan.support * f.kind
    sign = -1.0 if plan.reads == "distractor" else 1.0
    blur = noise * quarter_turn(rng)
    if plan.role in ("correlate", "repair"):
        return sign * plan.support * f.answer + noise * f.scratch
    return sign * plan.support * f.answer + plan.relay * f.previous + blur @ f.answer


def _set(parameter: Any, values: Floats) -> None:
    import torch

    parameter.copy_(torch.as_tensor(values, dtype=parameter.dtype))
