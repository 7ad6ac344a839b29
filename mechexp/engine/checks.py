"""Checks that the engine runs on itself before it reports a number."""

import torch

from mechexp.engine.sites import Change, Site, capture, changing, end_logits
from mechexp.models.loaded import LoadedModel
from mechexp.tasks.prompts import PromptSet

TOLERANCE = {"float32": 1e-4, "bfloat16": 0.25, "float16": 0.05}


def check_self_patch(loaded: LoadedModel, prompts: PromptSet) -> float:
    """Put a model's own z and residual streams back at every layer; its answer must not change.

    Args:
        loaded: The model.
        prompts: The shortest few of these are run.

    Returns:
        The largest change of a logit.

    Raises:
        RuntimeError: The answer changed by more than rounding explains.
    """
    length, indices = next(iter(prompts.buckets().items()))
    del length
    ids_PT = torch.tensor([prompts.ids[i] for i in indices[:2]], device=loaded.device)
    every = range(loaded.n_layers)
    own = capture(loaded, ids_PT, z=every, resid=[*every, loaded.n_layers])

    def put_back(site: Site) -> Change:
        return lambda _: own[site].clone()

    with changing(loaded, {site: put_back(site) for site in own}):
        patched = end_logits(loaded, ids_PT)
    error = float((patched.float() - end_logits(loaded, ids_PT).float()).abs().max())
    if not error <= TOLERANCE[loaded.dtype]:
        raise RuntimeError(
            f"putting {loaded.name}'s own activations back changed its logits by {error:.3g}: the model is not "
            "deterministic or its layout is wrong"
        )
    return error
