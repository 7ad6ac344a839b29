"""``control=matched_random``: distinct random sets with as many heads in each layer as the circuit."""

from mechexp.controls.registry import CONTROLS, DrawRequest
from mechexp.controls.sets import MatchedSets, distinct_sets
from mechexp.errors import UserError

DEFAULT_SETS = 99


@CONTROLS.register("matched_random")
def matched_random(request: DrawRequest) -> MatchedSets:
    """All matched sets where there are at most ``max_sets``, else that many distinct seeded ones.

    The order is that of one seeded shuffle in both cases, so a larger ``max_sets`` extends a smaller one.

    Raises:
        UserError: ``max_sets`` < 1.
    """
    count = DEFAULT_SETS if request.max_sets is None else request.max_sets
    if count < 1:
        raise UserError(
            f"max_sets={count} leaves nothing to compare with",
            where="control.max_sets",
            expected="1 or more (19 is the least that can reach p = .05)",
            todo="use control=none to go without a null",
        )
    space = request.space()
    sets = distinct_sets(space, count, request.seed)
    return MatchedSets(sets, space.total, len(sets) == space.total, space.notes(), space.short)
