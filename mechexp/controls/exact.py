"""``control=exact``: every matched set there is."""

from mechexp.controls.registry import CONTROLS, DrawRequest
from mechexp.controls.sets import MatchedSets, distinct_sets
from mechexp.errors import UserError


@CONTROLS.register("exact")
def exact(request: DrawRequest) -> MatchedSets:
    """All matched sets, in the order in which ``matched_random`` would draw them.

    Raises:
        UserError: There are more than ``exact_limit``, or ``max_sets`` was set.
    """
    if request.max_sets is not None:
        raise UserError(
            f"control=exact uses every set, but max_sets={request.max_sets} was given",
            where="control.max_sets",
            todo="drop control.max_sets, or use control=matched_random",
        )
    space = request.space()
    if space.total > request.exact_limit:
        raise UserError(
            f"circuit {request.circuit.screen!r} has {space.total:,} matched sets",
            where="control=exact",
            expected=f"at most control.exact_limit={request.exact_limit:,}",
            todo="use control=matched_random, or raise control.exact_limit",
        )
    sets = distinct_sets(space, space.total, request.seed)
    return MatchedSets(sets, space.total, True, space.notes(), space.short)
