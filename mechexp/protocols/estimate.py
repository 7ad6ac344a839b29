"""What a cell will cost before it runs: conditions, forward passes, memory and hours on the device found.

The engine's own planner counts the work, on circuits of an assumed size; the model is only a shape.
"""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mechexp.engine.condition import Condition
from mechexp.engine.edit import KINDS
from mechexp.engine.flops import needed_flops
from mechexp.errors import UserError
from mechexp.models import LoadedModel, load_from_config
from mechexp.models.heads import Head
from mechexp.models.layouts import geometry_of, layout_of
from mechexp.models.settings import ModelSettings, from_config
from mechexp.protocols.conditions import group_parts, single_parts
from mechexp.protocols.diagnostics import diagnostic_parts
from mechexp.protocols.head_counts import head_count_parts
from mechexp.protocols.screen_ablate import draw_nulls
from mechexp.schema import Config
from mechexp.screens import USER_SCREENS, Screened, screens_of
from mechexp.screens.circuit import Circuit
from mechexp.screens.spectral import n_top
from mechexp.screens.user import from_file, from_heads
from mechexp.tasks import TASKS, make_prompts
from mechexp.tasks.prompts import PromptSet, TextPrompt

ASSUMED_HEADS = 5  # of a circuit that is not known yet: what task screens pick by default
ASSUMED_TOKENS = {"ioi": 16, "gt": 12, "succ": 10, "vb": 16}  # of a prompt, where no tokenizer is at hand
ASSUMED_PROMPTS = 118  # of a task that makes all it can
UTILISATION = 0.35  # of the measured speed of a matrix product, reached by whole models (ours)
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}

# Shapes of the three models of Xu 2026, so that the paper's grid can be costed without a network.
_GRID = {"hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 16, "vocab_size": 50304}
SHAPES: dict[str, dict[str, Any]] = {
    "EleutherAI/pythia-1b": {
        **_GRID, "model_type": "gpt_neox", "num_attention_heads": 8, "intermediate_size": 8192,
    },
    "allenai/OLMo-1B-0724-hf": {**_GRID, "model_type": "olmo", "intermediate_size": 8192},
    "allenai/OLMoE-1B-7B-0924": {
        **_GRID, "model_type": "olmoe", "intermediate_size": 1024, "num_experts": 64,
        "num_experts_per_tok": 8,
    },
}  # fmt: skip


@dataclass(frozen=True)
class Estimate:
    """The cost of one cell.

    Attributes:
        model: The model.
        task: The task.
        control: The control.
        conditions: Distinct conditions to measure, the clean model included.
        forwards: Their work, in full forward passes over the test half.
        flops: Floating-point operations of the cell, screening included.
        gigabytes: Weights and the engine's memory, in GB.
        hours: On the device found.
        device: That device.
        notes: What was assumed.
    """

    model: str
    task: str
    control: str
    conditions: int
    forwards: float
    flops: float
    gigabytes: float
    hours: float
    device: str
    notes: tuple[str, ...]


def estimate_cell(cfg: Config) -> Estimate:
    """Cost one cell without running it; hub models are not downloaded.

    Raises:
        UserError: A hub model whose configuration is neither known nor reachable, or settings that do not
            fit.
    """
    loaded, notes = shape_of(cfg)
    prompts = _prompts(cfg, loaded, notes)
    test = prompts.part("test")
    conditions = list({c.key: c for c in _conditions(cfg, loaded, notes)}.values())
    one = needed_flops(loaded, test, [Condition()])
    measured = needed_flops(loaded, test, conditions)
    total = measured + _screening(cfg, loaded, one / max(1, sum(map(len, test.ids))), prompts)
    speed, device = measure_speed(cfg.model.device, loaded.dtype)
    weights = sum(p.numel() for p in loaded.model.parameters()) * BYTES[loaded.dtype] / 1e9
    needed, there = weights + cfg.engine.memory_gb, device_memory(cfg.model.device)
    if needed > there:
        notes.append(
            f"{cfg.model.name} needs {needed:.0f} GB, the device has {there:.0f} GB: it will not fit"
        )
    return Estimate(
        model=cfg.model.name,
        task=cfg.task.name,
        control=f"{cfg.control.name} ({cfg.control.max_sets or 'all'})",
        conditions=len(conditions),
        forwards=measured / one,
        flops=total,
        gigabytes=needed,
        hours=total / (speed * UTILISATION) / 3600,
        device=device,
        notes=tuple(notes),
    )


def shape_of(cfg: Config) -> tuple[LoadedModel, list[str]]:
    """The model: of the hub only its shape, without weights or tokenizer; others as they are."""
    import torch
    from transformers import AutoModelForCausalLM

    settings = from_config(cfg.model)
    if settings.source != "hub":
        return load_from_config(cfg.model), []
    config = _hub_config(settings)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    geometry, n_kv = geometry_of(config)
    loaded = LoadedModel(
        model, None, settings.name, settings.id, settings.revision, str(config.model_type), settings.dtype,
        "", geometry, n_kv, layout_of(config), screen_length=settings.screen_length,
    )  # fmt: skip
    return loaded, []


def _hub_config(settings: ModelSettings) -> Any:
    from transformers import AutoConfig

    if settings.id in SHAPES:
        return AutoConfig.for_model(**SHAPES[settings.id])
    try:
        return AutoConfig.from_pretrained(settings.id, revision=settings.revision or None)
    except (OSError, ValueError) as error:
        raise UserError(
            f"the size of {settings.id} is not known here ({type(error).__name__})",
            where=settings.where,
            todo="run the estimate where the hub can be reached",
        ) from error


def measure_speed(device: str, dtype: str) -> tuple[float, str]:
    """Operations a second of a large matrix product on the device that the cell would run on."""
    import torch

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    on_gpu = device.startswith("cuda") and torch.cuda.is_available()
    size, kind = (4096 if on_gpu else 1024), getattr(torch, dtype)
    a = torch.ones(size, size, device=device if on_gpu else "cpu", dtype=kind)
    best = float("inf")
    for _ in range(4):
        start = time.perf_counter()
        (a @ a).sum().item()  # .item() waits for the device
        best = min(best, time.perf_counter() - start)
    name = torch.cuda.get_device_name(a.device) if on_gpu else f"CPU, {torch.get_num_threads()} threads"
    return 2 * size**3 / best, name


def device_memory(device: str) -> float:
    """Memory of the device that the cell would run on, in GB."""
    import psutil
    import torch

    if device in ("auto", "cuda") and torch.cuda.is_available():
        return float(torch.cuda.get_device_properties(0).total_memory) / 1e9
    if device.startswith("cuda:") and torch.cuda.is_available():
        return float(torch.cuda.get_device_properties(device).total_memory) / 1e9
    return float(psutil.virtual_memory().total) / 1e9


def _prompts(cfg: Config, loaded: LoadedModel, notes: list[str]) -> PromptSet:
    """The cell's own prompts where a tokenizer is at hand, else as many of an assumed length."""
    if loaded.tokenizer is not None:
        return make_prompts(cfg.task, loaded.tokenizer)
    n, length = (cfg.task.n if cfg.task.n > 0 else ASSUMED_PROMPTS), ASSUMED_TOKENS.get(cfg.task.name, 20)
    notes.append(f"prompts of {length} tokens are assumed")
    half = tuple(("screen" if i % 2 else "test") if cfg.task.split else "both" for i in range(n))
    one = TextPrompt("", ("",), ("",))
    return PromptSet(
        cfg.task.name, (one,) * n, (tuple(range(length)),) * n, ({"end": length - 1},) * n, ((0,),) * n,
        ((1,),) * n, (None,) * n, half,
    )  # fmt: skip


def _conditions(cfg: Config, loaded: LoadedModel, notes: list[str]) -> list[Condition]:
    """What the protocol would measure if every screen picked ``ASSUMED_HEADS`` heads (or ``screen.k``)."""
    screened = _assumed(cfg, loaded, notes)
    others = [kind for kind in KINDS if kind != cfg.ablation.name and cfg.ablation.sensitivity]
    nulls = draw_nulls(screened, cfg)
    parts = group_parts(screened.circuits, nulls, cfg.ablation, others, unions=cfg.protocol.unions)
    parts += head_count_parts(screened, cfg)
    if cfg.protocol.diagnostics:
        parts += diagnostic_parts(screened, cfg.ablation, cfg.seed)
    parts += single_parts(screened.circuits, loaded.geometry, cfg.ablation, cfg.singles)
    return [Condition(), *(p.condition for p in parts)]


def _assumed(cfg: Config, loaded: LoadedModel, notes: list[str]) -> Screened:
    """Circuits of an assumed size at random places; the user's own as they are."""
    rng, geometry = np.random.default_rng(cfg.seed), loaded.geometry
    heads = [Head(layer, h) for layer in range(geometry.n_layers) for h in range(geometry.n_heads)]
    table = pd.DataFrame(heads, columns=["layer", "head"])
    table["best_class"], table["spectral_top"] = "none", True
    circuits = []
    for name in screens_of(cfg.screen, TASKS[cfg.task.name].screens):
        if name in USER_SCREENS:
            own = (
                from_heads(loaded, cfg.screen.heads)
                if name == "heads"
                else from_file(loaded, cfg.screen.file)
            )
            circuits.append(own)
            continue
        k = n_top(len(heads), cfg.screen.spectral.share) if name == "spectral" else ASSUMED_HEADS
        k = min(cfg.screen.k or k, len(heads))
        order = rng.permutation(len(heads))
        table[f"{name}_score"] = -np.argsort(order).astype(float)
        picked = tuple(heads[int(i)] for i in order[:k])
        circuits.append(Circuit(name, picked, loaded.id, loaded.revision, "", geometry))
    if any(c.screen not in USER_SCREENS for c in circuits):
        notes.append(f"circuits of {cfg.screen.k or ASSUMED_HEADS} heads are assumed")
    return Screened(tuple(circuits), table, ())


def _screening(cfg: Config, loaded: LoadedModel, per_token: float, prompts: PromptSet) -> float:
    """Screens: the random batch (once a checkpoint), three passes over the prompts, the OV copy scores."""
    length = cfg.screen.length or loaded.screen_length
    passes = 1 + (len(cfg.model.checkpoints) if cfg.screen.spectral.checkpoints else 0)
    tokens = passes * cfg.screen.sequences * length + 3 * sum(map(len, prompts.ids))
    unembed = 2.0 * loaded.d_model * int(loaded.model.config.vocab_size)
    return tokens * per_token + 32 * loaded.n_layers * loaded.n_heads * unembed
