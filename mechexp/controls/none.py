"""``control=none``: no null; effects are measured, but nothing can be called a cause."""

from mechexp.controls.registry import CONTROLS, DrawRequest
from mechexp.controls.sets import MatchedSets
from mechexp.errors import UserError


@CONTROLS.register("none")
def none(request: DrawRequest) -> MatchedSets:
    """No set at all.

    Raises:
        UserError: ``max_sets`` was set.
    """
    if request.max_sets:
        raise UserError(
            f"control=none draws no set, but max_sets={request.max_sets} was given",
            where="control.max_sets",
            todo="drop control.max_sets, or use control=matched_random",
        )
    note = "no null was measured: labels that need one are left open"
    return MatchedSets((), request.space().total, False, (note,))
