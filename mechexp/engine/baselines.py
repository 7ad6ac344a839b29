"""What an ablated head's z is replaced by: mean values of the reference prompts, and donors for resampling.

Only reference prompts (the screen half) feed the means, so that no value put into a test prompt was computed
from test prompts. Legend: P prompt, T position, W all heads' z side by side (heads × head dim).
"""

import hashlib
from collections.abc import Iterable, Mapping

import numpy as np
import torch

from mechexp.engine.sites import capture
from mechexp.errors import UserError
from mechexp.models.loaded import LoadedModel
from mechexp.tasks.prompts import PromptSet

MIN_REFERENCE = 8


class Means:
    """Mean z of clean runs over reference prompts.

    Args:
        loaded: The model.
        reference: The reference prompts.
        layers: Layers whose z is needed.
        lengths: Prompt lengths whose positional mean is needed.
        overall: Whether the mean over all prompts and positions is needed too.
        tokens: Tokens a forward pass may hold.

    Raises:
        UserError: A length has fewer than 8 reference prompts, or there are no reference prompts at all.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        reference: PromptSet,
        layers: Iterable[int],
        *,
        lengths: Iterable[int],
        overall: bool,
        tokens: int,
    ) -> None:
        layers, buckets = sorted(set(layers)), reference.buckets()
        self._mean: dict[tuple[int, int], torch.Tensor] = {}
        self._mean_all: dict[int, torch.Tensor] = {}
        wanted = sorted(set(lengths))
        require_references({t: len(buckets.get(t, ())) for t in wanted}, reference.task)
        if overall and len(reference) == 0:
            raise UserError("no reference prompts", where="ablation=mean_all", todo="raise task.n")
        total: dict[int, torch.Tensor] = {}
        count = 0
        for length, indices in buckets.items():
            if not (overall or length in wanted):
                continue
            sums = _sums(loaded, [reference.ids[i] for i in indices], layers, tokens)
            for layer, sum_TW in sums.items():
                self._mean[layer, length] = (sum_TW / len(indices)).float()
                total[layer] = total.get(layer, torch.zeros_like(sum_TW[0])) + sum_TW.sum(dim=0)
            count += len(indices) * length
        if overall:
            self._mean_all = {layer: (sum_W / count).float() for layer, sum_W in total.items()}

    def at(self, layer: int, length: int) -> torch.Tensor:
        """Mean z at each position of prompts of this length, fp32 (T, W)."""
        return self._mean[layer, length]

    def everywhere(self, layer: int) -> torch.Tensor:
        """Mean z over all prompts and positions, fp32 (W,)."""
        return self._mean_all[layer]


def _sums(
    loaded: LoadedModel, ids: list[tuple[int, ...]], layers: list[int], tokens: int
) -> dict[int, torch.Tensor]:
    """Sum of z over prompts of equal length, in fp64 so that neither order nor batching shows: (T, W)."""
    sums: dict[int, torch.Tensor] = {}
    step = max(1, tokens // len(ids[0]))
    for start in range(0, len(ids), step):
        batch = torch.tensor(ids[start : start + step], device=loaded.device)
        for (_, layer), z_PTW in capture(loaded, batch, z=layers).items():
            added = z_PTW.double().sum(dim=0)
            sums[layer] = sums[layer] + added if layer in sums else added
    return sums


def obstacle(kind: str, prompts: PromptSet, reference: PromptSet) -> str:
    """Why an ablation kind cannot be measured on these prompts; "" where it can."""
    try:
        if kind == "resample":
            donors(prompts, 0)
        elif kind == "mean":
            sizes = {length: len(index) for length, index in reference.buckets().items()}
            require_references({t: sizes.get(t, 0) for t in prompts.buckets()}, reference.task)
    except UserError as error:
        return error.found
    return ""


def require_references(sizes: Mapping[int, int], task: str) -> None:
    """Refuse a mean at each position where a prompt length has too few reference prompts.

    Args:
        sizes: Reference prompts by prompt length.
        task: Task name, for the message.

    Raises:
        UserError: Names the length, how many there are and ``mean_all``.
    """
    for length, found in sizes.items():
        if found < MIN_REFERENCE:
            raise UserError(
                f"{found} reference prompts of {length} tokens",
                where=f"ablation=mean of task {task}",
                expected=f"at least {MIN_REFERENCE} for a mean at each position",
                todo="use ablation=mean_all, or raise task.n",
            )


def donors(prompts: PromptSet, seed: int) -> list[tuple[int, ...]]:
    """Token ids of the prompt that each prompt is resampled from: its counterfactual, else another prompt.

    The other prompt has the same length and different tokens, and is chosen by a hash of the seed and the
    prompt's own tokens: the choice depends neither on the order of the prompts nor on their batching.

    Raises:
        UserError: A prompt has no counterfactual and is alone with its length.
    """
    by_length: dict[int, list[tuple[int, ...]]] = {}
    for ids in sorted(set(prompts.ids)):
        by_length.setdefault(len(ids), []).append(ids)
    chosen: list[tuple[int, ...]] = []
    for i, (ids, counterfactual) in enumerate(zip(prompts.ids, prompts.counterfactual_ids, strict=True)):
        if counterfactual is not None:
            chosen.append(counterfactual)
            continue
        others = [other for other in by_length[len(ids)] if other != ids]
        if not others:
            raise UserError(
                f"no other prompt of {len(ids)} tokens to resample from",
                where=f"ablation=resample, prompt {i} of task {prompts.task}: {prompts.texts[i].prompt!r}",
                expected="a counterfactual, or another prompt of the same length",
                todo="give the prompt a counterfactual, raise task.n, or use another ablation",
            )
        seeded = hashlib.sha256(f"{seed}|{ids}".encode()).digest()
        chosen.append(
            others[int(np.random.default_rng(int.from_bytes(seeded[:8], "big")).integers(len(others)))]
        )
    return chosen
