"""Which way conditions are evaluated: resumed inside the model, by plain passes, or through nnsight."""

import logging
from collections.abc import Sequence
from typing import Protocol

from mechexp.engine.checks import Exactness, check_exact
from mechexp.engine.condition import Condition
from mechexp.engine.config import EngineConfig
from mechexp.engine.fast import FastRoute
from mechexp.engine.plain import Emit, PlainRoute
from mechexp.engine.resume import Unsupported
from mechexp.engine.values import Values
from mechexp.errors import UserError
from mechexp.models.loaded import LoadedModel
from mechexp.tasks.prompts import PromptSet

log = logging.getLogger(__name__)


class Route(Protocol):
    """A way to evaluate conditions."""

    name: str

    def run(self, prompts: PromptSet, conditions: Sequence[Condition], values: Values, emit: Emit) -> None:
        """Evaluate every condition on every prompt, calling ``emit`` for each condition and block."""


def follow(
    config: EngineConfig,
    loaded: LoadedModel,
    prompts: PromptSet,
    conditions: Sequence[Condition],
    values: Values,
    emit: Emit,
    notes: list[str],
) -> str:
    """Evaluate conditions by the route that the options and the model allow.

    Args:
        config: The options.
        loaded: The model.
        prompts: The prompts.
        conditions: What is done to the model.
        values: Supplies the values of the edits.
        emit: Takes the results.
        notes: Gets a sentence where the fast route was asked for and not taken.

    Returns:
        The name of the route.

    Raises:
        UserError: ``route=fast`` on a model that cannot be resumed exactly, or nnsight without what it needs.
    """
    memory_bytes = config.memory_gb * 1e9
    if config.backend == "nnsight":
        from mechexp.engine.backends.nnsight_route import NnsightRoute

        traced = NnsightRoute(loaded, memory_bytes, remote=config.remote)
        traced.run(prompts, conditions, values, emit)
        return traced.name
    plain = PlainRoute(loaded, memory_bytes)
    if config.route == "plain":
        plain.run(prompts, conditions, values, emit)
        return plain.name
    fast, why = _fast(loaded, memory_bytes, prompts, conditions, values)
    if fast is None:
        if config.route == "fast":
            raise UserError(
                f"engine.route=fast, but {why}", where=loaded.name, todo="use engine.route=auto or plain"
            )
        note = f"evaluated by plain full forward passes: {why}"
        notes.append(note)
        log.warning("%s %s", loaded.name, note)
        plain.run(prompts, conditions, values, emit)
        return plain.name
    fast.run(prompts, [c for c in conditions if fast.supports(c)], values, emit)
    others = [c for c in conditions if not fast.supports(c)]
    if others:
        plain.run(prompts, others, values, emit)
    return fast.name


def _fast(
    loaded: LoadedModel,
    memory_bytes: float,
    prompts: PromptSet,
    conditions: Sequence[Condition],
    values: Values,
) -> tuple[FastRoute | None, str]:
    """The fast route if it passes its check on this model and these conditions, else why it does not."""
    if any(getattr(getattr(m, "_hf_hook", None), "offload", False) for m in loaded.model.modules()):
        return None, "weights of this model are offloaded and loaded a layer at a time"
    fast = FastRoute(loaded, memory_bytes)
    try:
        found: Exactness = check_exact(loaded, fast, prompts, conditions, values)
    except Unsupported as reason:
        return None, f"this {loaded.arch} model cannot be resumed inside ({reason})"
    if not found.passed:
        return None, f"resuming inside this {loaded.arch} model is not exact ({found})"
    log.debug("%s: fast route checked (%s)", loaded.name, found)
    return fast, ""
