"""Top-1 on prompts the training held out, and on the tasks' default prompts.

Shapes: P prompts, T tokens.
"""

from collections.abc import Sequence
from typing import Any

import torch

from mechexp.tasks import make_prompts
from mechexp.tasks.gt import GtConfig
from mechexp.tasks.ioi import IoiConfig
from mechexp.tasks.prompts import PromptSet
from mechexp.tasks.succ import SuccConfig
from mechexp.tasks.vb import VbConfig
from mechexp.zoo.heldout import held_out

TASKS = ("ioi", "gt", "succ", "vb")
SEED = 7919
PASS = 0.95


def held_out_prompts(tokenizer: Any, n: int = 500) -> dict[str, PromptSet]:
    """At most ``n`` prompts of each task that training never showed (gt: about 0.4 n).

    ioi and vb: names and cities it never had in these tasks. gt: start years no prompt started in. succ: runs
    of five items with a first item that no run of five started with.
    """
    out = held_out()
    gt = make_prompts(GtConfig(n=4 * n, seed=SEED), tokenizer, lexicon=out.test)
    succ = make_prompts(SuccConfig(seed=SEED), tokenizer, lexicon=out.test)
    years = [i for i, text in enumerate(gt.texts) if out.holds_year(text)]
    return {
        "ioi": make_prompts(IoiConfig(n=n, seed=SEED), tokenizer, lexicon=out.test),
        "gt": gt.take(years[:n]),
        "succ": succ.take([i for i, text in enumerate(succ.texts) if out.holds_run(text)][:n]),
        "vb": make_prompts(VbConfig(n=n, seed=SEED), tokenizer, lexicon=out.test),
    }


def default_prompts(tokenizer: Any) -> dict[str, PromptSet]:
    """The prompts each task makes without any option; most of their words were trained on."""
    configs = (IoiConfig(), GtConfig(), SuccConfig(), VbConfig())
    return {cfg.name: make_prompts(cfg, tokenizer) for cfg in configs}


@torch.no_grad()
def top1(model: Any, prompts: PromptSet) -> float:
    """Share of prompts whose most likely next token, of the whole vocabulary, is a target."""
    right = 0
    for rows in prompts.buckets().values():
        ids_PT = torch.tensor([prompts.ids[i] for i in rows], device=model.device)
        best_P = model(ids_PT).logits[:, -1].argmax(-1).tolist()
        right += sum(best in prompts.targets[i] for i, best in zip(rows, best_P, strict=True))
    return right / len(prompts)


def accuracies(model: Any, prompts: dict[str, PromptSet]) -> dict[str, float]:
    """Top-1 of each task, with the model in evaluation mode."""
    training = model.training
    model.eval()
    found = {task: round(top1(model, rows), 4) for task, rows in prompts.items()}
    model.train(training)
    return found


def report(model: Any, tokenizer: Any) -> dict[str, Any]:
    """What ``accuracies.json`` holds."""
    held, default = held_out_prompts(tokenizer), default_prompts(tokenizer)
    found = {"held_out": accuracies(model, held), "default": accuracies(model, default)}
    sizes = {
        "held_out": {k: len(v) for k, v in held.items()},
        "default": {k: len(v) for k, v in default.items()},
    }
    return {"metric": "top1", **found, "prompts": sizes}


def not_learned(found: dict[str, Any], tasks: Sequence[str] = TASKS) -> list[str]:
    """Those of ``tasks`` whose held-out accuracy in a ``report`` is below ``PASS``."""
    return [task for task in tasks if found["held_out"][task] < PASS]
