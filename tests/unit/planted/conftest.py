"""Planted models saved to disk, and what a reader needs to judge them from outside: hooks, no generator."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from mechexp.models import load_model
from mechexp.planted import PlantedOptions, save_planted
from mechexp.tasks import make_prompts
from mechexp.tasks.planted import PlantedConfig

CASES = {
    "path": PlantedOptions(seed=2, profile="path"),
    "direct": PlantedOptions(seed=3, profile="direct", repaired="no"),
    "background": PlantedOptions(seed=5, profile="background"),
    "repaired": PlantedOptions(seed=6, repaired="yes"),
}


@dataclass
class Saved:
    """A saved model as anybody would read it."""

    folder: Any
    truth: dict
    loaded: Any
    prompts: Any

    @property
    def plans(self):
        return self.truth["heads"]

    def run(self, zeroed=()):
        """Plain forward pass with heads zeroed by plain hooks: logit differences, attentions, z by layer."""
        model, n, d = self.loaded.model, self.loaded.n_heads, self.loaded.head_dim
        handles, kept = [], {}
        for layer, block in enumerate(model.transformer.h):
            heads = [h for l, h in zeroed if l == layer]

            def hook(_module, args, layer=layer, heads=heads):
                z = args[0].clone().unflatten(-1, (n, d))
                z[:, :, heads] = 0
                kept[layer] = z
                return (z.flatten(-2), *args[1:])

            handles.append(block.attn.c_proj.register_forward_pre_hook(hook))
        with torch.no_grad():
            out = model(torch.tensor(self.prompts.ids), output_attentions=True)
        for handle in handles:
            handle.remove()
        rows = np.arange(len(self.prompts))
        end = out.logits[:, -1].double().numpy()
        diff = (
            end[rows, np.array(self.prompts.targets)[:, 0]]
            - end[rows, np.array(self.prompts.distractors)[:, 0]]
        )
        return diff, out.attentions, kept


@pytest.fixture(scope="session", params=list(CASES))
def saved(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    save_planted(CASES[request.param], folder)
    truth = json.loads((folder / "truth.json").read_text())
    loaded = load_model(folder, device="cpu")
    prompts = make_prompts(PlantedConfig(n=200, seed=9), loaded.tokenizer)
    return Saved(folder, truth, loaded, prompts)
