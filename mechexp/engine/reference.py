"""The trusted way: one full forward pass a condition, with plain hooks that change activations.

Slow and simple on purpose. The fast executor is compared with it, and falls back to it.
Legend: P prompt, V vocabulary.
"""

from collections.abc import Mapping
from itertools import groupby

import torch

from mechexp.engine.blocks import Block
from mechexp.engine.condition import Condition
from mechexp.engine.edit import Edit
from mechexp.engine.sites import Change, Site, changing, end_logits
from mechexp.engine.values import apply, site_of
from mechexp.models.loaded import LoadedModel


def plain_logits(
    loaded: LoadedModel, condition: Condition, block: Block, values: Mapping[str, torch.Tensor]
) -> tuple[torch.Tensor, int]:
    """End-position logits of a block under one condition.

    Args:
        loaded: The model.
        condition: What is done to it.
        block: The prompts.
        values: Values of the condition's edits for this block.

    Returns:
        Logits (P, V) in the model's dtype, and the number of activation elements changed.
    """
    edited = 0

    def change(edits: list[Edit]) -> Change:
        def hook(activation_PTW: torch.Tensor) -> torch.Tensor:
            nonlocal edited
            changed = activation_PTW.clone()
            edited += apply(changed, edits, values, block, loaded.head_dim)
            return changed

        return hook

    ordered = sorted(condition.all_edits, key=site_of)
    changes: dict[Site, Change] = {site: change(list(edits)) for site, edits in groupby(ordered, key=site_of)}
    with changing(loaded, changes):
        return end_logits(loaded, block.ids_PT), edited
