"""Checks that the engine runs on itself before it reports a number.

Legend: P prompt, T position, Q last positions computed, V vocabulary, K experts a token is routed to.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from mechexp.engine.block_run import path_of
from mechexp.engine.blocks import Block, make_block
from mechexp.engine.condition import Condition
from mechexp.engine.fast import FastRoute
from mechexp.engine.reference import plain_logits
from mechexp.engine.sites import Change, Site, capture, changing, end_logits
from mechexp.engine.values import Values
from mechexp.models.loaded import LoadedModel
from mechexp.tasks.prompts import PromptSet

# Largest difference of a logit: absolute, or relative to the largest logit where rounding exceeds that.
ABSOLUTE = {"float32": 1e-4, "bfloat16": 0.125, "float16": 0.02}
RELATIVE = {"float32": 1e-5, "bfloat16": 0.03, "float16": 4e-3}


def tolerance(dtype: str, logits: torch.Tensor) -> float:
    """How far two logits may lie apart by rounding."""
    return max(ABSOLUTE[dtype], RELATIVE[dtype] * float(logits.float().abs().max()))


def has_hooks(loaded: LoadedModel) -> bool:
    """Whether someone has registered forward hooks on the model."""
    return any(m._forward_hooks or m._forward_pre_hooks for m in loaded.model.modules())


def check_self_patch(loaded: LoadedModel, prompts: PromptSet) -> float:
    """Put a model's own z and residual streams back at every layer; its answer must not change.

    Args:
        loaded: The model.
        prompts: The shortest two of these are run.

    Returns:
        The largest change of a logit.

    Raises:
        RuntimeError: The answer changed by more than rounding explains.
    """
    indices = next(iter(prompts.buckets().values()))
    ids_PT = torch.tensor([prompts.ids[i] for i in indices[:2]], device=loaded.device)
    every = range(loaded.n_layers)
    own = capture(loaded, ids_PT, z=every, resid=[*every, loaded.n_layers])

    def put_back(site: Site) -> Change:
        return lambda _: own[site].clone()

    with changing(loaded, {site: put_back(site) for site in own}):
        patched = end_logits(loaded, ids_PT)
    clean = end_logits(loaded, ids_PT)
    error = float((patched.float() - clean.float()).abs().max())
    if not error <= tolerance(loaded.dtype, clean):
        raise RuntimeError(
            f"putting {loaded.name}'s own activations back changed its logits by {error:.3g}: "
            "the model is not deterministic or its layout is wrong"
        )
    return error


@dataclass(frozen=True)
class Exactness:
    """How far the fast route lies from the plain one.

    Attributes:
        error: Largest difference of a logit.
        allowed: What rounding explains.
        flips: Times that the two routed an end position to other experts; 0 in dense models.
        checked: Conditions × prompts compared.
    """

    error: float
    allowed: float
    flips: int
    checked: int

    @property
    def passed(self) -> bool:
        """Whether the difference is explained by rounding."""
        return self.error <= self.allowed

    def __str__(self) -> str:
        flips = f", {self.flips} routing flips" if self.flips else ""
        return (
            f"logits differ by {self.error:.2g}, {self.allowed:.2g} allowed{flips}, {self.checked} compared"
        )


def check_exact(
    loaded: LoadedModel,
    fast: FastRoute,
    prompts: PromptSet,
    conditions: Sequence[Condition],
    values: Values,
) -> Exactness:
    """Compare the fast route with plain hooked forward passes on a few conditions of the run itself.

    Compared are the clean model, the condition that changes most layers, those that begin first and last, and
    ones that change the end or a named position only, on two of the shortest and two of the longest prompts.
    """
    buckets = list(prompts.buckets().values())
    blocks = [bucket[:2] for bucket in ([buckets[0]] if len(buckets) == 1 else [buckets[0], buckets[-1]])]
    errors: list[float] = []
    allowed, flips, checked = 0.0, 0, 0
    for indices in blocks:
        for condition in _telling([c for c in conditions if fast.supports(c)]):
            ours, our_experts = _fast_logits(loaded, fast, prompts, indices, condition, values)
            names = {edit.positions for edit in condition.all_edits}
            block = make_block(prompts, indices, names, loaded.device)
            with routing(loaded, len(indices)) as their_experts:
                theirs, _ = plain_logits(loaded, condition, block, values.of(condition.all_edits, block))
            errors.append(float((ours.float() - theirs.float()).abs().max()))
            allowed = max(allowed, tolerance(loaded.dtype, theirs))
            flips += count_flips(our_experts, their_experts)
            checked += len(indices)
    # numpy's maximum keeps a NaN, which then fails; Python's would drop it
    return Exactness(float(np.max(errors)), allowed, flips, checked)


def _telling(conditions: Sequence[Condition]) -> list[Condition]:
    """The clean model and a few conditions that exercise the fast route differently."""
    changed = [c for c in conditions if c.all_edits]
    chosen = [Condition()]
    if changed:
        end = [c for c in changed if all(e.positions == "end" for e in c.all_edits)]
        named = [c for c in changed if any(e.positions not in ("all", "end") for e in c.all_edits)]
        chosen.append(max(changed, key=lambda c: len(path_of(c))))
        chosen.append(min(changed, key=lambda c: path_of(c)[0].depth))
        chosen.append(max(changed, key=lambda c: path_of(c)[0].depth))
        chosen.extend([*end[:1], *named[:1]])
    return list({c.key: c for c in chosen}.values())


def _fast_logits(
    loaded: LoadedModel,
    fast: FastRoute,
    prompts: PromptSet,
    indices: np.ndarray,
    condition: Condition,
    values: Values,
) -> tuple[torch.Tensor, dict[int, torch.Tensor]]:
    found: list[torch.Tensor] = []

    def keep(_: Condition, __: Block, logits_PV: torch.Tensor, ___: int) -> None:
        found.append(logits_PV)

    with routing(loaded, len(indices)) as experts:
        fast.run_block(prompts, indices, [condition], values, keep)
    return found[0], experts


@contextmanager
def routing(loaded: LoadedModel, prompts: int) -> Iterator[dict[int, torch.Tensor]]:
    """Record to which experts each layer's router sends the end position, ``{layer: (P, K)}``, sorted."""
    seen: dict[int, torch.Tensor] = {}

    def hook_for(layer: int) -> Any:
        def hook(_: torch.nn.Module, __: tuple[Any, ...], output: Any) -> None:
            whole = [t for t in output if isinstance(t, torch.Tensor) and not t.is_floating_point()]
            if whole:
                seen[layer] = whole[-1].reshape(prompts, -1, whole[-1].shape[-1])[:, -1].sort(dim=-1).values

        return hook

    with ExitStack() as stack:
        for layer in range(loaded.n_layers):
            router = loaded.router(layer)
            if router is not None:
                stack.callback(router.register_forward_hook(hook_for(layer)).remove)
        yield seen


def count_flips(ours: dict[int, torch.Tensor], theirs: dict[int, torch.Tensor]) -> int:
    """Layers × prompts at which two runs routed the end position to different experts."""
    return sum(int((ours[layer] != theirs[layer]).any(dim=-1).sum()) for layer in ours if layer in theirs)
