"""What screens look at: attention of one query position, read once and shared by all screens of a cell.

Shapes: P prompts or sequences, L layers, H heads, T positions, D head dim, Q the last and the last but one
position.
"""

from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mechexp.config import ScreenConfig
from mechexp.errors import UserError
from mechexp.models import LoadedModel
from mechexp.models.attention import attention_rows
from mechexp.models.checkpoints import Checkpoint
from mechexp.screens.batch import RandomBatch, make_batch, usable_vocabulary
from mechexp.tasks.prompts import PromptSet

if TYPE_CHECKING:
    from mechexp.screens.general import GeneralScreen
    from mechexp.screens.spectral import SpectralSignal

# Eager attention keeps one T × T map a head: few sequences at a time bound the memory.
CHUNK_ELEMENTS = 2**24


@dataclass(frozen=True)
class ScreenInputs:
    """The model, the screen half of the prompts, and the attention read from them.

    Attributes:
        loaded: The model.
        prompts: Prompts that heads may be chosen on; never the test half.
        cfg: Screen settings.
        checkpoints: Training checkpoints for the spectral signal; none = of the model at hand alone.
    """

    loaded: LoadedModel
    prompts: PromptSet
    cfg: ScreenConfig
    checkpoints: tuple[Checkpoint, ...] = ()

    @property
    def length(self) -> int:
        """Tokens of a random sequence: as asked (refused beyond the context), else as suits the model."""
        if self.cfg.length:
            return self.cfg.length
        context = getattr(self.loaded.model.config, "max_position_embeddings", None)
        return min(self.loaded.screen_length, int(context or self.loaded.screen_length))

    @cached_property
    def batch(self) -> RandomBatch:
        """Random-token sequences of the general screens."""
        vocabulary = usable_vocabulary(self.loaded.tokenizer, int(self.loaded.model.config.vocab_size))
        return make_batch(vocabulary, sequences=self.cfg.sequences, length=self.length, seed=self.cfg.seed)

    @property
    def random_rows_PLHT(self) -> NDArray[np.float32]:
        """Attention of the last position of each random sequence."""
        return self._random_pass[0]

    @property
    def random_z_QPLHD(self) -> NDArray[np.float32]:
        """Z of the last and of the last but one position of each random sequence, fp32."""
        return self._random_pass[1]

    @cached_property
    def _random_pass(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        return read_last(self.loaded, self.batch.ids_PT)

    @cached_property
    def spectral(self) -> "SpectralSignal":
        """The spectral signal of every head, measured once."""
        from mechexp.screens.spectral import measure_spectral

        return measure_spectral(self)

    @cached_property
    def general(self) -> "GeneralScreen":
        """The six-class screen, measured once."""
        from mechexp.screens.general import classify

        return classify(self)

    @cached_property
    def end_rows(self) -> dict[int, NDArray[np.float32]]:
        """Attention of the end position, by prompt length: ``{T: rows_PLHT}`` in bucket order."""
        return {
            length: read_rows(self.loaded, np.array([self.prompts.ids[i] for i in index]))
            for length, index in self.prompts.buckets().items()
        }

    def attention_to_LH(self, name: str) -> NDArray[np.float64]:
        """Mean attention from the end position to the named position, over prompts.

        Raises:
            UserError: A prompt lacks that position.
        """
        total = np.zeros((self.loaded.n_layers, self.loaded.n_heads))
        for length, index in self.prompts.buckets().items():
            rows = self.end_rows[length]
            at = self._positions(name, index)
            total += rows[np.arange(len(index)), :, :, at].astype(np.float64).sum(axis=0)
        return total / len(self.prompts)

    def attention_elsewhere_LH(
        self, *, but: tuple[str, ...], also_not_previous: bool = False
    ) -> NDArray[np.float64]:
        """Mean attention a position from the end to all positions but the named ones, over prompts."""
        total = np.zeros((self.loaded.n_layers, self.loaded.n_heads))
        for length, index in self.prompts.buckets().items():
            keep = np.ones((len(index), length), dtype=bool)
            for name in but:
                keep[np.arange(len(index)), self._positions(name, index)] = False
            if also_not_previous:
                keep[:, length - 2] = False
            rows = self.end_rows[length].astype(np.float64)
            weights = keep / np.maximum(keep.sum(axis=1, keepdims=True), 1)
            total += np.einsum("plht,pt->lh", rows, weights)
        return total / len(self.prompts)

    def _positions(self, name: str, index: NDArray[np.int64]) -> NDArray[np.int64]:
        try:
            return np.array([self.prompts.positions[int(i)][name] for i in index])
        except KeyError:
            have = sorted({k for p in self.prompts.positions for k in p})
            raise UserError(
                f"the screen needs the position {name!r}, which a prompt lacks",
                where=f"task {self.prompts.task!r}",
                expected=f"a span of that name in every prompt; this task has {', '.join(have)}",
                todo="choose another screen, or add the span to the prompts",
            ) from None


def read_rows(loaded: LoadedModel, ids_PT: NDArray[np.int64]) -> NDArray[np.float32]:
    """Attention rows of the last position (P, L, H, T), a few sequences at a time."""
    import torch

    n, length = ids_PT.shape
    step = max(1, CHUNK_ELEMENTS // (loaded.n_heads * length * length))
    chunks = []
    for start in range(0, n, step):
        ids = torch.as_tensor(ids_PT[start : start + step], device=loaded.device)
        chunks.append(attention_rows(loaded, ids).cpu().numpy())
    rows: NDArray[np.float32] = np.concatenate(chunks).astype(np.float32)
    return rows


def read_last(
    loaded: LoadedModel, ids_PT: NDArray[np.int64]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """In one pass: attention rows of the last position (P, L, H, T); z there and before (Q, P, L, H, D)."""
    from mechexp.models.hooks import split_heads

    kept: list[NDArray[np.float32]] = []

    def keep(_module: object, args: tuple[Any, ...]) -> None:
        z_PQHD = split_heads(loaded, args[0])[:, [-1, -2]]
        kept.append(z_PQHD.detach().float().cpu().numpy())

    with ExitStack() as stack:
        for layer in range(loaded.n_layers):
            stack.callback(loaded.out_proj(layer).register_forward_pre_hook(keep).remove)
        rows = read_rows(loaded, ids_PT)
    # one entry a layer, chunk after chunk of sequences
    chunks = [np.stack(kept[i : i + loaded.n_layers], axis=2) for i in range(0, len(kept), loaded.n_layers)]
    z_PQLHD = np.concatenate(chunks)
    if z_PQLHD.shape[:3] != (len(ids_PT), 2, loaded.n_layers):
        raise RuntimeError(
            f"z came as {z_PQLHD.shape} from {len(ids_PT)} sequences, {loaded.n_layers} layers"
        )
    return rows, np.moveaxis(z_PQLHD, 1, 0)
