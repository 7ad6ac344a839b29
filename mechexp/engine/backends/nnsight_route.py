"""The plain route through nnsight traces: the same interventions and numbers, here or on NDIF's servers.

Remote execution needs a key: set ``NDIF_API_KEY`` and ``engine.backend=nnsight engine.remote=true``. The
model must be one that NDIF serves, under its hub id. Every condition is one trace. Baselines (means, donors,
sources) are computed on the local copy of the model.

nnsight reads the source of the trace below, runs it in a thread of its own and must not be used from several
threads at once. Legend: P prompt, T position, W width of a site, V vocabulary.
"""

import os
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import torch

from mechexp.engine.blocks import Block, make_block, split
from mechexp.engine.condition import Condition
from mechexp.engine.memory import tokens_per_pass
from mechexp.engine.plain import Emit
from mechexp.engine.sites import stream_module
from mechexp.engine.values import Values, apply, site_of
from mechexp.errors import UserError
from mechexp.models.loaded import LoadedModel
from mechexp.tasks.prompts import PromptSet


class NnsightRoute:
    """Evaluates conditions one at a time through nnsight.

    Args:
        loaded: The model.
        memory_bytes: Memory beside the weights.
        remote: Run on NDIF.

    Raises:
        UserError: nnsight is missing, or remote execution was asked for without a key.
    """

    name = "nnsight"

    def __init__(self, loaded: LoadedModel, memory_bytes: float, *, remote: bool = False) -> None:
        if remote and not os.environ.get("NDIF_API_KEY"):
            raise UserError(
                "engine.remote=true without a key",
                where="environment variable NDIF_API_KEY",
                expected="a key of the National Deep Inference Fabric (NDIF)",
                todo="set NDIF_API_KEY, or leave engine.remote=false to run nnsight on this machine",
            )
        try:
            import nnsight
        except ImportError as error:
            raise UserError(
                f"nnsight cannot be imported: {error}",
                where="engine.backend=nnsight",
                todo="pip install 'nnsight>=0.8,<0.9', or use engine.backend=hooks",
            ) from error
        self._loaded, self._memory, self._remote = loaded, memory_bytes, remote
        self._names = {id(module): name for name, module in loaded.model.named_modules()}
        if remote:
            self._traced = nnsight.LanguageModel(loaded.id, revision=loaded.revision or None)
        else:
            self._traced = nnsight.NNsight(loaded.model)

    def run(self, prompts: PromptSet, conditions: Sequence[Condition], values: Values, emit: Emit) -> None:
        """Evaluate every condition on every prompt, calling ``emit`` for each condition and block."""
        most = {t: tokens_per_pass(self._loaded, self._memory, t) // t for t in prompts.buckets()}
        names = {edit.positions for c in conditions for edit in c.all_edits}
        for indices in split(prompts, most):
            block = make_block(prompts, indices, names, self._loaded.device)
            for condition in conditions:
                known = values.of(condition.all_edits, block)
                logits_PV, edited = self._trace(condition, block, known)
                emit(condition, block, logits_PV, edited)

    def _trace(
        self, condition: Condition, block: Block, values: Mapping[str, torch.Tensor]
    ) -> tuple[torch.Tensor, int]:
        """End-position logits (P, V) of one condition, and how many elements were changed."""
        # streams before z within a layer: values must be asked for in the order of the forward pass
        ordered = sorted(condition.all_edits, key=lambda e: (e.layer, e.head is not None))
        sites = [(site, list(edits)) for site, edits in groupby(ordered, key=site_of)]
        points = [(self._envoy(site), edits) for site, edits in sites]
        head_dim, changed, traced = self._loaded.head_dim, [], self._traced
        given = {"use_cache": False, "logits_to_keep": 1}
        with traced.trace(block.ids_PT, remote=self._remote, **given), torch.no_grad():
            for point, edits in points:
                activation_PTW = point.input.clone()
                changed.append(apply(activation_PTW, edits, values, block, head_dim))
                point.input = activation_PTW
            counts = nnsight_save(changed)
            logits_PTV = traced.output.logits.save()
        return logits_PTV[:, -1].to(self._loaded.device), sum(counts)

    def _envoy(self, site: tuple[str, int]) -> Any:
        """Nnsight's handle on the module whose input is the site."""
        kind, layer = site
        module = self._loaded.out_proj(layer) if kind == "z" else stream_module(self._loaded, layer)
        envoy = self._traced
        for part in self._names[id(module)].split("."):
            envoy = envoy[int(part)] if part.isdigit() else getattr(envoy, part)
        return envoy


def nnsight_save(value: Any) -> Any:
    """Keep a plain Python value beyond the trace."""
    import nnsight

    return nnsight.save(value)
