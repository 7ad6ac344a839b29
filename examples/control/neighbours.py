"""A control of your own: every set of heads shifted by one, two … within its layers (cheap, few sets).

Run: mechexp --config-dir examples control=neighbours
"""

from mechexp.controls.registry import CONTROLS, DrawRequest
from mechexp.controls.sets import MatchedSets
from mechexp.models.heads import Head


@CONTROLS.register("neighbours")
def neighbours(request: DrawRequest) -> MatchedSets:
    circuit, width = request.circuit, request.circuit.geometry.n_heads
    shifted = (
        tuple(sorted(Head(layer, (head + step) % width) for layer, head in circuit.heads))
        for step in range(1, width)
    )
    own = set(circuit.heads)
    sets = tuple(dict.fromkeys(s for s in shifted if s and not own & set(s)))[: request.max_sets]
    total = request.space().total  # how many matched sets there are in all
    return MatchedSets(sets, total, exact=False, notes=("the null is the circuit, shifted",))
