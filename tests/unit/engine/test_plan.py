"""The plan: every condition once, no change forgotten, never more states than allowed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechexp.engine.plan import STREAM, Node, Step, Z, packs, prune, trie, work

LAYERS = 5


@st.composite
def paths(draw):
    """Distinct non-empty paths, by condition number."""
    depth = st.tuples(st.integers(0, LAYERS - 1), st.sampled_from([STREAM, Z]))
    one = st.dictionaries(depth, st.sampled_from("ab"), min_size=1, max_size=5)
    every = draw(st.lists(one, min_size=1, max_size=40))
    steps = {tuple(Step(*d, (e,)) for d, e in sorted(path.items())) for path in every}
    return dict(enumerate(sorted(steps)))


def found(nodes, above=()):
    """Condition number → its path as the trie holds it; a number twice fails."""
    result = {}
    for node in nodes:
        path = (*above, node.step)
        for number in node.ends:
            assert number not in result
            result[number] = path
        below = found(node.children, path)
        assert not set(below) & set(result)
        result |= below
    return result


@given(paths())
def test_the_trie_holds_every_condition_once_with_all_its_changes(wanted):
    assert found(trie(wanted)) == wanted


@given(paths(), st.integers(1, 12))
def test_packs_hold_every_condition_once_and_respect_the_capacity(wanted, capacity):
    made = packs(trie(wanted), capacity)
    together = {}
    for pack in made:
        part = found(pack)
        assert len(part) <= capacity
        assert not set(part) & set(together)
        together |= part
    assert together == wanted


def most_alive(pack):
    """States alive at once when a pack goes up together, counted by walking it."""
    most, alive = 0, []
    for depth in ((layer, stage) for layer in range(LAYERS + 1) for stage in (STREAM, Z)):
        born = [node for node in pack if node.step.depth == depth]
        born += [child for node in alive for child in node.born_at(*depth)]
        alive = [node for node in alive if node.lives_after(*depth)] + born
        most = max(most, len(alive))
    assert all(node.ends for node in alive)
    assert sum(len(node.ends) for node in alive) == sum(node.size for node in pack)
    return most


@given(paths(), st.integers(1, 12))
def test_a_pack_never_has_more_states_under_way_than_its_capacity(wanted, capacity):
    for pack in packs(trie(wanted), capacity):
        assert most_alive(pack) <= capacity


@given(paths(), st.integers(1, 12))
def test_packs_start_no_deeper_than_the_next_so_that_memory_can_be_freed(wanted, capacity):
    starts = [min(node.step.layer for node in pack) for pack in packs(trie(wanted), capacity)]
    assert starts == sorted(starts)


@given(paths())
def test_every_shared_layer_is_computed_once(wanted):
    count = work(trie(wanted), LAYERS)
    assert count[LAYERS, "logits"] == len(wanted)
    for layer in range(LAYERS):
        # what has been done to the model by the end of this layer, over all conditions
        states = {tuple(s for s in path if s.depth <= (layer, Z)) for path in wanted.values()} - {()}
        assert count[layer, "whole"] + count[layer, "resumed"] == len(states)


def test_nested_head_sets_share_all_but_their_last_layers():
    steps = [Step(layer, Z, ("x",)) for layer in range(4)]
    nested = {k: tuple(steps[:k]) for k in range(1, 5)}
    count = work(trie(nested), 4)
    # k heads: resumed at each of the k layers, then whole to the top; layer 1 is whole for k = 1 alone, …
    assert [count[layer, "resumed"] for layer in range(4)] == [1, 1, 1, 1]
    assert [count[layer, "whole"] for layer in range(4)] == [0, 1, 2, 3]
    assert count[4, "logits"] == 4


@given(paths(), st.data())
def test_pruning_leaves_what_is_not_done(wanted, data):
    done = data.draw(st.sets(st.sampled_from(sorted(wanted))))
    left = [node for root in trie(wanted) if (node := prune(root, done)) is not None]
    assert found(left) == {number: path for number, path in wanted.items() if number not in done}


@given(paths())
def test_a_node_without_a_condition_of_its_own_is_needed_only_up_to_its_children(wanted):
    def walk(nodes):
        for node in nodes:
            assert node.ends or node.children
            deepest = max((c.step.depth for c in node.children), default=node.step.depth)
            assert node.lives_after(*deepest) == bool(node.ends)
            walk(node.children)

    walk(trie(wanted))


def test_steps_out_of_order_and_empty_paths_are_refused():
    with pytest.raises(ValueError, match="order"):
        trie({0: (Step(1, Z, ("a",)), Step(1, STREAM, ("a",)))})
    with pytest.raises(ValueError, match="order"):
        trie({0: ()})
    with pytest.raises(ValueError, match="capacity"):
        packs([Node(Step(0, Z, ("a",)), (0,))], 0)
