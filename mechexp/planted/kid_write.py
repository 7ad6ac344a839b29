"""From a blueprint of protocol 2 to the weights of a stock GPT-2 model.

As for the models of protocol 1, the residual stream is split into orthogonal features at right angles to
(1, …, 1), so LayerNorm's mean is exactly 0, and a constant far larger than all else keeps LayerNorm's scale
the same within a percent. A lookup MLP has one neuron for each operation and operand pair: its input is the
sum of the three matches less a threshold, steep enough for GELU to act as max(0, ·).

Shapes: E residual, D head dim, N neurons, K rows of a feature.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechexp.planted.kid_blueprint import CONTROL, FAMILY, N_HEADS, N_LAYERS, KidBlueprint, KidHead
from mechexp.planted.kid_words import LEAVE, TABLE, WORDS
from mechexp.tasks.planted_kid import KID, SIZE

Floats = NDArray[np.float64]

HEAD_DIM = 20
D_MODEL = N_HEADS * HEAD_DIM
CONSTANT = 20.0
SCALE = float(np.sqrt(D_MODEL) / np.sqrt(CONSTANT**2 + 5))  # LayerNorm's, with the features' usual size
SHARP, SINK = 40.0, 20.0  # attention scores of the word that is looked for, and of the first word
LOGIT, FORMAT, LEFT = 8.0, 12.0, 11.0  # logits: the right answer, any answer in format, the word outside
STEEP = 60.0  # input of a neuron per unit of match
MARGIN = 0.1  # a neuron's threshold above the sum of an incomplete match
LENGTH = 16
SIZES = {
    "first": SIZE, "second": SIZE, "operator": 3, "mark": 3, "last": 3,  # the words' own codes
    "first@": SIZE, "second@": SIZE, "operation@": 3, "gate@": 3, "mark@": 3,  # what heads have moved
    "answer": SIZE, "format": 1, "kinds": 5,
}  # fmt: skip
KINDS = ("first", "second", "operator", "mark", "last")
SCRATCH = 10
ASIDE = 0.1  # how much is written where nothing reads it: little, so that LayerNorm does not feel it


@dataclass(frozen=True)
class Space:
    """Orthonormal directions of the residual stream.

    Attributes:
        constant: (E,).
        start: Marks the first word, (E,).
        scratch: Rows that nothing reads, (SCRATCH, E).
        of: Feature of a family → its rows, (K, E).
    """

    constant: Floats
    start: Floats
    scratch: Floats
    of: dict[tuple[str, str], Floats]

    @classmethod
    def draw(cls, rng: np.random.Generator) -> "Space":
        """A random basis at right angles to (1, …, 1)."""
        names = [(f, name) for f in KID for name in SIZES]
        sizes = [1, 1, SCRATCH, *(SIZES[name] for _, name in names)]
        columns = np.column_stack([np.ones(D_MODEL), rng.normal(size=(D_MODEL, sum(sizes)))])
        basis_FE = np.linalg.qr(columns)[0].T[1:]
        constant, start, scratch, *rest = np.split(basis_FE, np.cumsum(sizes)[:-1])
        return cls(constant[0], start[0], scratch, dict(zip(names, rest, strict=True)))

    def kind(self, family: str, name: str) -> Floats:
        """The direction that marks words of a kind, (E,)."""
        row: Floats = self.of[family, "kinds"][KINDS.index(name)]
        return row


def write_kid(blueprint: KidBlueprint, attn_implementation: str = "eager") -> Any:
    """A ``GPT2LMHeadModel`` in float32 that does what the blueprint says."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    rng = np.random.default_rng([blueprint.options.seed, 3])
    space = Space.draw(rng)
    mlps = {layer: _neurons(blueprint, layer, space) for layer in range(N_LAYERS)}
    config = GPT2Config(
        vocab_size=len(WORDS),
        n_positions=LENGTH,
        n_embd=D_MODEL,
        n_layer=N_LAYERS,
        n_head=N_HEADS,
        n_inner=max(len(neurons) for neurons in mlps.values()),
        activation_function="gelu_new",
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=None,
        attn_implementation=attn_implementation,
    )
    model = GPT2LMHeadModel(config).float()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.fill_(1.0 if ".ln_" in name and name.endswith("weight") else 0.0)
        _embed(model, blueprint, space)
        for layer, block in enumerate(model.transformer.h):
            _write_heads(
                block.attn, [h for h in blueprint.heads if h.layer == layer], space, blueprint.noise, rng
            )
            _write_neurons(block.mlp, mlps[layer])
    return model.eval()


def _embed(model: Any, blueprint: KidBlueprint, s: Space) -> None:
    """Embeddings of words by kind and code; unembedding of answers, and of the word that waits outside."""
    words, rows = np.zeros((len(WORDS), D_MODEL)), np.zeros((len(WORDS), D_MODEL))
    for family in KID:
        for kind in KINDS:
            for word, code in TABLE[family, kind]:
                words[WORDS.index(word)] = s.of[family, kind][code] + s.kind(family, kind)
        if not (family == FAMILY and blueprint.stabilized):  # the last word alone says what is wanted
            for word, _ in TABLE[family, "last"]:
                words[WORDS.index(word)] += s.of[family, "format"][0]
        for code, word in enumerate(KID[family].answers):
            answer, form = s.of[family, "answer"][code], s.of[family, "format"][0]
            rows[WORDS.index(word)] = (LOGIT * answer + FORMAT * form) / SCALE
    words[0] += s.start
    rows[WORDS.index(LEAVE)] = LEFT / SCALE * s.constant / CONSTANT
    _set(model.transformer.wte.weight, words)
    _set(model.transformer.wpe.weight, np.tile(CONSTANT * s.constant, (LENGTH, 1)))
    _set(model.lm_head.weight, rows)


def _write_heads(
    attention: Any, plans: list[KidHead], s: Space, noise: float, rng: np.random.Generator
) -> None:
    """Fused query, key and value weights (E × 3E, Conv1D) and the output projection (E × E)."""
    fused, out = np.zeros((D_MODEL, 3 * D_MODEL)), np.zeros((D_MODEL, D_MODEL))
    for plan in plans:
        columns = plan.head * HEAD_DIM
        read_KE, written_KE = _ov(plan, s)
        blur_KE = (
            noise
            * rng.normal(size=(len(read_KE), SCRATCH + SIZE))
            @ np.concatenate([s.scratch, s.of[plan.family, "answer"]])
        )
        for k, weights_DE in enumerate((*_qk(plan, s), read_KE / SCALE)):
            start = k * D_MODEL + columns
            fused[:, start : start + len(weights_DE)] = weights_DE.T
        out[columns : columns + len(read_KE)] = written_KE + blur_KE
    _set(attention.c_attn.weight, fused)
    _set(attention.c_proj.weight, out)


def _qk(plan: KidHead, s: Space) -> tuple[Floats, Floats]:
    """Query and key weights, (2, E) each: from the last word (operands: and from the operator) to a word.

    Elsewhere, and in prompts of the other family, the head rests on the first word, whose z is 0.
    """
    asks = s.kind(plan.family, "last")
    if plan.role == "operand":
        asks = asks + s.kind(plan.family, "operator")
    query = np.stack([SHARP * asks, SINK * s.constant / CONSTANT]) * np.sqrt(HEAD_DIM) / SCALE
    key = np.stack([s.kind(plan.family, plan.attends), s.start]) / SCALE
    return query, key


def _ov(plan: KidHead, s: Space) -> tuple[Floats, Floats]:
    """What z holds and where it goes, (K, E) each."""
    if plan.reads == "answer":  # attending to the operator, z holds its code as well; that goes nowhere
        read = np.concatenate([s.of[plan.family, "answer"], s.of[plan.family, "operator"]])
        aside = ASIDE * s.scratch[:3]
        return read, np.concatenate([plan.strength * s.of[plan.family, "answer"], aside])
    read = s.of[plan.family, plan.reads]
    if not plan.writes:
        return read, ASIDE * s.scratch[: len(read)]
    return read, plan.strength * s.of[plan.family, f"{plan.writes}@"]


@dataclass(frozen=True)
class Neuron:
    """Fires by how much the sum of its matches, (E,), exceeds a threshold, and writes ``out``, (E,)."""

    match: Floats
    threshold: float
    out: Floats


def _neurons(blueprint: KidBlueprint, layer: int, s: Space) -> list[Neuron]:
    """The MLP of a layer: answers looked up, and marks compared with last words."""
    neurons: list[Neuron] = []
    if layer == blueprint.lookup:
        at_operator = blueprint.route == "bias"
        neurons += _lookup(FAMILY, "operator" if at_operator else "operation@", blueprint.gate, s)
        neurons += _lookup(CONTROL, "operation@", 0.0, s)
    if layer == blueprint.format and blueprint.stabilized:
        out = s.of[FAMILY, "format"][0] / (1 - MARGIN)
        pairs = zip(s.of[FAMILY, "mark@"], s.of[FAMILY, "last"], strict=True)
        neurons += [Neuron(mark + last, 1 + MARGIN, out) for mark, last in pairs]
    return neurons


def _lookup(family: str, operation: str, gate: float, s: Space) -> list[Neuron]:
    """One neuron an operation and operand pair; a second one where part of the answer needs the gate."""
    words, neurons = KID[family], []
    for o, answer in enumerate(words.operations.values()):
        for a, first in enumerate(words.first):
            for b, second in enumerate(words.second):
                operands = s.of[family, "first@"][a] + s.of[family, "second@"][b]
                match = operands + s.of[family, operation][o]
                out = s.of[family, "answer"][words.answers.index(answer((first, second)))] / (1 - MARGIN)
                neurons.append(Neuron(match, 2 + MARGIN, (1 - gate) * out))
                if gate:
                    neurons.append(Neuron(match + s.of[family, "gate@"][o], 3 + MARGIN, gate * out))
    return neurons


def _write_neurons(mlp: Any, neurons: list[Neuron]) -> None:
    """Weights of the neurons; those that are left stay 0."""
    if not neurons:
        return
    n = len(neurons)
    mlp.c_fc.weight[:, :n] = _tensor(np.stack([x.match for x in neurons]).T * STEEP / SCALE)
    mlp.c_fc.bias[:n] = _tensor(np.array([-x.threshold * STEEP for x in neurons]))
    mlp.c_proj.weight[:n] = _tensor(np.stack([x.out for x in neurons]) / STEEP)


def _set(parameter: Any, values: Floats) -> None:
    parameter.copy_(_tensor(values))


def _tensor(values: Floats) -> Any:
    import torch

    return torch.as_tensor(values, dtype=torch.float32)
