"""Drawing the matched head sets of a circuit, by any control."""

from collections.abc import Iterable

from mechexp.controls import exact, matched_random, none, paper  # noqa: F401  (each enters itself in CONTROLS)
from mechexp.controls.config import ControlConfig
from mechexp.controls.registry import CONTROLS, DrawRequest
from mechexp.controls.sets import MatchedSets
from mechexp.errors import UserError
from mechexp.models.heads import Geometry
from mechexp.screens.circuit import Circuit


def draw(
    circuit: Circuit,
    *,
    control: str = "matched_random",
    max_sets: int | None = None,
    exact_limit: int = 20_000,
    match_on: str = "layer",
    seed: int = 0,
    bos_heads: Iterable[tuple[int, int]] | None = None,
) -> MatchedSets:
    """Draw the head sets that a circuit is compared with.

    Args:
        circuit: The circuit.
        control: Name of a control.
        max_sets: Number of sets; None leaves it to the control (``matched_random``: 99).
        exact_limit: Most sets that ``exact`` may enumerate.
        match_on: ``layer`` or ``layer_bos``.
        seed: Seed of the draw; the same for every circuit of a run.
        bos_heads: BOS-class heads of the model, as (layer, head); needed by ``layer_bos``.

    Returns:
        The sets; none for an empty circuit.

    Raises:
        UserError: Unknown control, or an option that it does not take.
    """
    request = DrawRequest(circuit, max_sets, exact_limit, match_on, seed, bos_heads)
    return CONTROLS[control](request)


def check(config: ControlConfig) -> None:
    """Refuse options that the chosen control would ignore.

    Raises:
        UserError: An option of the control that it does not take; the message names it.
    """
    if config.adaptive and config.name != "matched_random":
        raise UserError(
            f"control={config.name} has a fixed number of sets and cannot grow",
            where="control.adaptive",
            expected="false",
            todo="use control=matched_random control.adaptive=true",
        )
    if config.exact_limit < 1:
        raise UserError(
            f"exact_limit={config.exact_limit}", where="control.exact_limit", expected="1 or more"
        )
    # each control knows what it takes: let it say so now, not after the model has been screened
    nothing = Circuit("check", (), "", "", "", Geometry(1, 1, 1))
    draw(
        nothing,
        control=config.name,
        max_sets=config.max_sets,
        exact_limit=config.exact_limit,
        match_on=config.match_on,
        bos_heads=(),
    )
