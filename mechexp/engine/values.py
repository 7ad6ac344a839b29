"""From interventions to tensors: the value of every edit for the prompts of a block, and its application.

Legend: P prompt, T position, Q the last positions of a prompt that are being computed (Q = T: all of them),
W width of a whole site (all heads' z side by side, or the residual stream), w width of one edit.
"""

from collections.abc import Iterable, Mapping

import numpy as np
import torch

from mechexp.engine.baselines import Means, donors
from mechexp.engine.blocks import Block
from mechexp.engine.condition import Condition
from mechexp.engine.edit import Edit
from mechexp.engine.sites import Site, capture
from mechexp.errors import UserError
from mechexp.models.heads import Head
from mechexp.models.loaded import LoadedModel
from mechexp.tasks.prompts import PromptSet


def site_of(edit: Edit) -> Site:
    """Kind and layer of the site that ``edit`` changes."""
    return ("resid" if edit.head is None else "z", edit.layer)


def is_sourced(edit: Edit) -> bool:
    """Whether the value of ``edit`` is read from a run over other prompts, block by block."""
    return isinstance(edit.value, PromptSet) or (isinstance(edit.value, str) and edit.value == "resample")


def columns(edit: Edit, head_dim: int) -> slice:
    """The columns of the site's W that ``edit`` may change."""
    return slice(None) if edit.head is None else slice(edit.head * head_dim, (edit.head + 1) * head_dim)


class Values:
    """Supplies the value of every edit of a run.

    Args:
        loaded: The model.
        prompts: The prompts that are measured.
        reference: The prompts that mean values come from (the screen half).
        conditions: All conditions of the run; sources and baselines are checked against ``prompts`` here.
        seed: Seed of the choice of resampling donors.
        tokens: Tokens a forward pass may hold.

    Raises:
        UserError: A site that the model lacks, a value of the wrong shape, a source that does not correspond
            to the prompts, or a baseline that cannot be computed.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        prompts: PromptSet,
        reference: PromptSet | None,
        conditions: Iterable[Condition],
        *,
        seed: int,
        tokens: int,
    ) -> None:
        self._loaded, self._prompts, self._tokens = loaded, prompts, tokens
        edits = {edit.key: edit for condition in conditions for edit in condition.all_edits}.values()
        for edit in edits:
            _check(edit, loaded, prompts)
        kinds = {edit.value for edit in edits if isinstance(edit.value, str)}
        self._donors = donors(prompts, seed) if "resample" in kinds else []
        self._means: Means | None = None
        if kinds & {"mean", "mean_all"}:
            self._means = Means(
                loaded,
                _reference(prompts) if reference is None else reference,
                {e.layer for e in edits if isinstance(e.value, str) and e.value in ("mean", "mean_all")},
                lengths={len(ids) for ids in prompts.ids} if "mean" in kinds else (),
                overall="mean_all" in kinds,
                tokens=tokens,
            )

    def of(self, edits: Iterable[Edit], block: Block) -> dict[str, torch.Tensor]:
        """Values of ``edits`` for the prompts of ``block``.

        Returns:
            ``{edit.key: value}`` in the model's dtype; value broadcasts to (P, T, w) for an edit at all
            positions and to (P, w) for an edit at one position.
        """
        by_key = {edit.key: edit for edit in edits}
        values: dict[str, torch.Tensor] = {}
        sources: dict[str, tuple[list[tuple[int, ...]], list[dict[str, int]], list[Edit]]] = {}
        for key, edit in by_key.items():
            if isinstance(edit.value, str) and edit.value != "resample":
                values[key] = self._baseline(edit, block)
            elif isinstance(edit.value, np.ndarray):
                array = edit.value[block.indices] if edit.value.ndim == 2 else edit.value
                value = torch.as_tensor(array, device=self._loaded.device, dtype=self._loaded.model.dtype)
                values[key] = value[:, None] if edit.positions == "all" and value.ndim == 2 else value
            else:
                group = "resample" if isinstance(edit.value, str) else str(id(edit.value))
                if group not in sources:
                    sources[group] = (*self._source(edit, block), [])
                sources[group][2].append(edit)
        for ids, places, users in sources.values():
            values.update(self._read(ids, places, users))
        return values

    def _baseline(self, edit: Edit, block: Block) -> torch.Tensor:
        dtype, cut = self._loaded.model.dtype, columns(edit, self._loaded.head_dim)
        if edit.value == "zero":
            return torch.zeros((), dtype=dtype, device=self._loaded.device)
        assert self._means is not None
        if edit.value == "mean_all":
            return self._means.everywhere(edit.layer)[cut].to(dtype)
        mean_TD = self._means.at(edit.layer, block.length)[:, cut].to(dtype)
        return mean_TD if edit.positions == "all" else mean_TD[block.places[edit.positions]]

    def _source(self, edit: Edit, block: Block) -> tuple[list[tuple[int, ...]], list[dict[str, int]]]:
        """Token ids and named positions of the source prompts of a block."""
        if isinstance(edit.value, PromptSet):
            ids = [edit.value.ids[i] for i in block.indices]
            places = [dict(edit.value.positions[i]) for i in block.indices]
        else:
            ids = [self._donors[i] for i in block.indices]
            places = [dict(self._prompts.positions[i]) for i in block.indices]
        return ids, [{**p, "end": len(i) - 1} for p, i in zip(places, ids, strict=True)]

    def _read(
        self, ids: list[tuple[int, ...]], places: list[dict[str, int]], edits: list[Edit]
    ) -> dict[str, torch.Tensor]:
        """Clean activations of source prompts at the sites and positions of ``edits``."""
        found: dict[str, list[torch.Tensor | None]] = {edit.key: [None] * len(ids) for edit in edits}
        z = {edit.layer for edit in edits if edit.head is not None}
        resid = {edit.layer for edit in edits if edit.head is None}
        for length in sorted({len(i) for i in ids}):
            rows = [row for row, i in enumerate(ids) if len(i) == length]
            step = max(1, self._tokens // length)
            for batch in (rows[start : start + step] for start in range(0, len(rows), step)):
                tokens = torch.tensor([ids[row] for row in batch], device=self._loaded.device)
                activations = capture(self._loaded, tokens, z=z, resid=resid)
                for edit in edits:
                    clean_PTw = activations[site_of(edit)][..., columns(edit, self._loaded.head_dim)]
                    for at, row in enumerate(batch):
                        whole = edit.positions == "all"
                        picked = clean_PTw[at] if whole else clean_PTw[at, places[row][edit.positions]]
                        found[edit.key][row] = picked.clone()
        return {key: torch.stack([v for v in rows if v is not None]) for key, rows in found.items()}


def apply(
    activation_PQW: torch.Tensor,
    edits: Iterable[Edit],
    values: Mapping[str, torch.Tensor],
    block: Block,
    head_dim: int,
) -> int:
    """Change an activation in place.

    Args:
        activation_PQW: The site's activation at the last Q positions; a tensor that the caller owns.
        edits: Edits of this one site.
        values: Their values for this block.
        block: The prompts.
        head_dim: Width of one head's z.

    Returns:
        How many elements were changed.
    """
    offset = block.length - activation_PQW.shape[1]
    rows = torch.arange(block.size, device=activation_PQW.device)
    changed = 0
    for edit in edits:
        cut = columns(edit, head_dim)
        view = activation_PQW[..., cut]
        if edit.positions == "all":
            if offset:
                raise RuntimeError(f"{edit}: all positions asked for, {activation_PQW.shape[1]} at hand")
            new = _changed(view, edit, values[edit.key])
            view.copy_(new)
            changed += view.numel()
        else:
            at = block.places[edit.positions].to(view.device) - offset
            # asked of named positions only: on a GPU the question waits for all work under way
            if offset and edit.positions != "end" and bool((at < 0).any()):
                raise RuntimeError(f"{edit}: its position is not among those being computed")
            old = view[rows, at]
            view[rows, at] = _changed(old, edit, values[edit.key])
            changed += old.numel()
    return changed


def _changed(old: torch.Tensor, edit: Edit, value: torch.Tensor) -> torch.Tensor:
    """X + (new − x) B Bᵀ; exactly ``new`` where no basis is given."""
    value = value.to(device=old.device, dtype=old.dtype)
    new = old + value if edit.add else value.expand_as(old)
    if edit.basis is None:
        return new
    basis = torch.as_tensor(edit.basis, dtype=torch.float32, device=old.device)
    step = (new.float() - old.float()) @ basis @ basis.T
    return (old.float() + step).to(old.dtype)


def _reference(prompts: PromptSet) -> PromptSet:
    """The screen half of ``prompts``, for callers that name no reference prompts."""
    reference = prompts.part("screen")
    if len(reference) == 0:
        raise UserError(
            "mean ablation of test prompts without reference prompts",
            expected="reference=…: the screen half, the only source of mean values",
        )
    return reference


def _check(edit: Edit, loaded: LoadedModel, prompts: PromptSet) -> None:
    where = f"intervention at {edit.site}"
    if edit.head is not None:
        loaded.geometry.require([Head(edit.layer, edit.head)], where="conditions to measure")
    elif not 0 <= edit.layer <= loaded.n_layers:
        raise UserError(f"no residual stream {edit.site}", expected=f"resid0 … resid{loaded.n_layers}")
    width = loaded.d_model if edit.head is None else loaded.head_dim
    if edit.basis is not None and edit.basis.shape[0] != width:
        raise UserError(f"a basis of shape {edit.basis.shape}", where=where, expected=f"({width}, rank)")
    if isinstance(edit.value, np.ndarray) and edit.value.shape not in {(width,), (len(prompts), width)}:
        raise UserError(
            f"a value of shape {edit.value.shape}", where=where,
            expected=f"({width},), or one row a prompt: ({len(prompts)}, {width})",
        )  # fmt: skip
    if isinstance(edit.value, PromptSet):
        _check_source(edit, edit.value, prompts, where)


def _check_source(edit: Edit, source: PromptSet, prompts: PromptSet, where: str) -> None:
    if len(source) != len(prompts):
        raise UserError(
            f"{len(source)} source prompts for {len(prompts)} prompts", where=where, expected="one a prompt"
        )
    for i, (ours, theirs) in enumerate(zip(prompts.ids, source.ids, strict=True)):
        if edit.positions == "all" and len(ours) != len(theirs):
            raise UserError(
                f"source prompt {i} has {len(theirs)} tokens, its prompt {len(ours)}", where=where,
                expected="equal lengths where all positions are patched",
            )  # fmt: skip
        if edit.positions not in ("all", "end") and edit.positions not in source.positions[i]:
            raise UserError(f"source prompt {i} has no position {edit.positions!r}", where=where)
