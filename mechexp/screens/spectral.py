"""Spectral signal of a head: along how many directions its output varies (Xu 2026, arXiv 2605.24059).

M is the z of one head at the last position over the random-token sequences of the general screens, not
centred. The signal ranks heads before any task is looked at; it is reported beside every screen and selects
nothing unless asked (``screen=spectral``, ``screen.filter=spectral``).

Shapes: P sequences, L layers, H heads, D head dim, Q the last and the last but one position, S subsamples,
K checkpoints.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechexp.errors import UserError
from mechexp.screens.inputs import ScreenInputs
from mechexp.screens.registry import Screen, register
from mechexp.screens.scores import ScreenScores

Floats = NDArray[np.float64]
LAST, BEFORE = 0, 1


def entropy_rank(matrix: ArrayLike) -> float:
    """Exp of the entropy of the normalised squared singular values: the paper's "PR".

    Args:
        matrix: Samples × features, not centred; array or tensor.

    Returns:
        1 for a matrix of rank one, min(rows, columns) for equal singular values, 0 for a matrix of zeros.

    Raises:
        ValueError: Not a matrix, empty, or not finite.
    """
    return float(entropy_ranks(_matrix(matrix)))


def participation_ratio(matrix: ArrayLike) -> float:
    """(Σs²)² / Σs⁴, the classical participation ratio; never above the entropy rank.

    Args:
        matrix: Samples × features, not centred; array or tensor.

    Raises:
        ValueError: Not a matrix, empty, or not finite.
    """
    return float(participation_ratios(_matrix(matrix)))


def trajectory_integral(ranks: ArrayLike, tokens: ArrayLike) -> float:
    """Trapezoid of max(rank − 1, 0) over ln(training tokens).

    Args:
        ranks: Entropy rank at each checkpoint.
        tokens: Training tokens of each checkpoint, in any unit (the integral does not depend on it); in any
            order.

    Raises:
        UserError: Fewer than two checkpoints, lengths that differ, tokens that are not positive or not
            distinct.
    """
    return float(integrals(np.asarray(ranks, dtype=np.float64), tokens))


def entropy_ranks(m_XPD: ArrayLike) -> Floats:
    """Entropy rank of each matrix of a stack, (…)."""
    p = _shares(m_XPD)
    entropy = -np.sum(p * np.log(np.where(p > 0, p, 1.0)), axis=-1)
    ranks: Floats = np.where(p.sum(axis=-1) > 0, np.exp(entropy), 0.0)
    return ranks


def participation_ratios(m_XPD: ArrayLike) -> Floats:
    """Participation ratio of each matrix of a stack, (…)."""
    squares = np.sum(_shares(m_XPD) ** 2, axis=-1)
    ratios: Floats = np.divide(1.0, squares, out=np.zeros_like(squares), where=squares > 0)
    return ratios


def integrals(ranks_KX: Floats, tokens_K: ArrayLike) -> Floats:
    """``trajectory_integral`` for many heads at once, along the first axis: (…)."""
    tokens = np.asarray(tokens_K, dtype=np.float64)
    if tokens.ndim != 1 or len(tokens) != len(np.atleast_1d(ranks_KX)):
        raise UserError(
            f"{np.shape(ranks_KX)} ranks for {tokens.shape} token counts", expected="one a checkpoint"
        )
    if len(tokens) < 2:
        raise UserError(
            "an integral over a single checkpoint", expected="at least two checkpoints with their tokens"
        )
    order = np.argsort(tokens)
    if not (np.isfinite(tokens).all() and tokens.min() > 0 and np.diff(tokens[order]).min() > 0):
        raise UserError(
            f"training tokens {', '.join(f'{t:g}' for t in tokens)}",
            where="model.checkpoints",
            expected="a positive number a checkpoint, all different: ln(tokens) is integrated over",
        )
    area: Floats = np.trapezoid(np.maximum(ranks_KX[order] - 1, 0), np.log(tokens[order]), axis=0)
    return area


@dataclass(frozen=True)
class SpectralSignal:
    """The signal of every head.

    Attributes:
        rank_LH: Entropy rank over all sequences, final model.
        participation_LH: Participation ratio, likewise.
        signal_LH: What heads are ranked by: the integral over the checkpoints, or the fallback: the mean over
            subsamples of max(rank − 1, 0).
        null_LH: The same one position earlier, where the head has read random tokens only, without the
            planted repeat (ours).
        z_LH: (signal − null) in standard deviations of the null over subsamples (ours).
        top_LH: Whether a head is in the top share by signal.
        tokens: Training tokens of the checkpoints in billions; empty for the fallback.
        share: That share.
    """

    rank_LH: Floats
    participation_LH: Floats
    signal_LH: Floats
    null_LH: Floats
    z_LH: Floats
    top_LH: NDArray[np.bool_]
    tokens: tuple[float, ...]
    share: float

    @property
    def integral_available(self) -> bool:
        """Whether the signal is an integral over a training trajectory."""
        return bool(self.tokens)

    def columns(self) -> dict[str, NDArray[Any]]:
        """Columns of ``heads.parquet``."""
        return {
            "spectral_rank": self.rank_LH.ravel(),
            "spectral_participation": self.participation_LH.ravel(),
            "spectral_signal": self.signal_LH.ravel(),
            "spectral_null": self.null_LH.ravel(),
            "spectral_z": self.z_LH.ravel(),
            "spectral_top": self.top_LH.ravel(),
        }

    def details(self) -> dict[str, Any]:
        """How it was measured, for result files."""
        return {
            "integral_available": self.integral_available,
            "checkpoints": len(self.tokens),
            "share": self.share,
            "n_top": int(self.top_LH.sum()),
        }


def measure_spectral(inputs: ScreenInputs) -> SpectralSignal:
    """Measure the signal on the random batch, over checkpoints where ``inputs`` has them.

    Raises:
        UserError: A checkpoint of another size than the model.
    """
    cfg = inputs.cfg.spectral
    z_QPLHD = inputs.random_z_QPLHD
    picks_SN = _subsamples(z_QPLHD.shape[1], cfg.subsamples, inputs.cfg.seed)
    if inputs.checkpoints:
        tokens = tuple(c.tokens for c in inputs.checkpoints)
        found = [_ranks(_checkpoint_z(inputs, i), picks_SN) for i in range(len(tokens))]
        whole_QLH = integrals(np.stack([w for w, _ in found]), tokens)
        parts_QSLH = integrals(np.stack([p for _, p in found]), tokens)
    else:
        tokens = ()
        _, ranks_QSLH = _ranks(z_QPLHD, picks_SN)
        parts_QSLH = np.maximum(ranks_QSLH - 1, 0)
        whole_QLH = parts_QSLH.mean(axis=1)
    m_LHPD = np.moveaxis(z_QPLHD[LAST], 0, 2)
    spread_LH = parts_QSLH[BEFORE].std(axis=0, ddof=1)
    shift_LH = parts_QSLH[LAST].mean(axis=0) - parts_QSLH[BEFORE].mean(axis=0)
    return SpectralSignal(
        rank_LH=entropy_ranks(m_LHPD),
        participation_LH=participation_ratios(m_LHPD),
        signal_LH=whole_QLH[LAST],
        null_LH=whole_QLH[BEFORE],
        z_LH=np.divide(shift_LH, spread_LH, out=np.full_like(shift_LH, np.nan), where=spread_LH > 0),
        top_LH=top_share(whole_QLH[LAST], cfg.share),
        tokens=tokens,
        share=cfg.share,
    )


def top_share(signal_LH: Floats, share: float) -> NDArray[np.bool_]:
    """The best ``share`` of heads, at least one; ties go to the lower layer and head."""
    best = np.zeros(signal_LH.size, dtype=bool)
    best[np.argsort(-signal_LH, axis=None, kind="stable")[: n_top(signal_LH.size, share)]] = True
    return best.reshape(signal_LH.shape)


def n_top(n_heads: int, share: float) -> int:
    """How many heads the top ``share`` of a model is."""
    return max(1, round(share * n_heads))


def spectral(inputs: ScreenInputs) -> ScreenScores:
    """Heads of the largest spectral signal; a pre-screen that looks at no position and no task."""
    found = inputs.spectral
    nothing = np.full_like(found.signal_LH, np.nan)
    over = f"integral over {len(found.tokens)} checkpoints" if found.tokens else "one checkpoint"
    return ScreenScores(
        score_LH=found.signal_LH,
        attention_LH=nothing,
        contrast_LH=nothing,
        eligible_LH=found.top_LH,
        rule=f"top {found.share:.0%} of heads by spectral signal ({over})",
        pattern_LH=nothing,
        default_k=None,
        details={"length": inputs.length, "sequences": inputs.cfg.sequences, **found.details()},
    )


def _ranks(z_QPLHD: NDArray[np.float32], picks_SN: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Entropy ranks over all sequences (Q, L, H) and over subsamples (Q, S, L, H)."""
    m_QLHPD = np.moveaxis(z_QPLHD, 1, 3)
    parts = np.stack([entropy_ranks(m_QLHPD[..., pick, :]) for pick in picks_SN], axis=1)
    return entropy_ranks(m_QLHPD), parts


def _subsamples(sequences: int, count: int, seed: int) -> NDArray[np.int64]:
    """Halves of the sequences, drawn without replacement, (S, N)."""
    rng = np.random.default_rng(seed)
    size = max(1, sequences // 2)
    return np.stack([rng.choice(sequences, size=size, replace=False) for _ in range(count)])


def _checkpoint_z(inputs: ScreenInputs, index: int) -> NDArray[np.float32]:
    """Z of one checkpoint on the same sequences; the checkpoint is let go of afterwards."""
    from mechexp.screens.inputs import read_last

    checkpoint = inputs.checkpoints[index]
    model = checkpoint.load()
    if model.geometry != inputs.loaded.geometry:
        raise UserError(
            f"checkpoint {checkpoint.revision} has other heads than the model",
            where="model.checkpoints",
            expected=str(inputs.loaded.geometry),
        )
    return read_last(model, inputs.batch.ids_PT)[1]


def _shares(m_XPD: ArrayLike) -> Floats:
    """Squared singular values as shares of their sum; zeros for a matrix of zeros."""
    m = np.asarray(m_XPD, dtype=np.float64)
    scale = np.abs(m).max(axis=(-2, -1), keepdims=True)
    scaled = np.divide(m, scale, out=np.zeros_like(m), where=scale > 0)  # squares neither over- nor underflow
    squared = np.linalg.svd(scaled, compute_uv=False) ** 2
    total = squared.sum(axis=-1, keepdims=True)
    shares: Floats = np.divide(squared, total, out=np.zeros_like(squared), where=total > 0)
    return shares


def _matrix(matrix: Any) -> Floats:
    if hasattr(matrix, "detach"):  # a torch tensor, perhaps bfloat16 or on another device
        matrix = matrix.detach().float().cpu().numpy()
    m: Floats = np.asarray(matrix, dtype=np.float64)
    if m.ndim != 2 or not m.size:
        raise ValueError(f"a matrix of samples × features is needed, not shape {m.shape}")
    if not np.isfinite(m).all():
        raise ValueError("the matrix holds values that are not finite")
    return m


register(Screen("spectral", spectral, general=True))
