"""Blueprints and prompts of planted models of protocol 2: seeded, consistent, refusing what is wrong."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechexp.errors import UserError
from mechexp.models import load_model
from mechexp.planted import KidOptions, draw_kid
from mechexp.planted.kid_blueprint import CONTROL, FAMILY, N_HEADS, N_LAYERS, ROUTES
from mechexp.planted.kid_words import TABLE, WORDS, build_kid_tokenizer
from mechexp.tasks import TASKS, make_prompts
from mechexp.tasks.planted_kid import KID

SEEDS = st.integers(0, 10**6)


@settings(max_examples=80, deadline=None)
@given(SEEDS, st.sampled_from([*ROUTES, "any"]))
def test_blueprints_hang_together(seed, route):
    options = KidOptions(seed=seed, route=route)
    b = draw_kid(options)
    assert b == draw_kid(options)
    assert [(h.layer, h.head) for h in b.heads] == [(l, h) for l in range(N_LAYERS) for h in range(N_HEADS)]
    own = {h.role: h for h in b.heads if h.family == FAMILY}
    moved = sum(h.strength for h in b.heads if h.family == FAMILY and h.writes == "operation")
    assert moved == pytest.approx(0.0 if b.route == "bias" else 1.0)
    assert ("doing_logit_bias" in own) == (b.route == "bias")
    assert (b.gate > 0) == ("gate" in own)
    assert b.stabilized == ("knowing_trajectory_stabilizer" in own)
    for h in b.heads:
        late = {"doing_logit_bias": b.lookup + 1, "idle": 0}.get(h.role)
        if late is not None:
            assert h.layer >= late
        else:
            assert h.layer <= (b.format if h.role == "knowing_trajectory_stabilizer" else b.lookup)


def test_every_route_is_drawn_and_seeds_differ():
    drawn = [draw_kid(KidOptions(seed=s)) for s in range(60)]
    assert {b.route for b in drawn} == set(ROUTES)
    assert len({b.heads for b in drawn}) == 60
    roles = {h.role for b in drawn for h in b.heads}
    assert roles >= {"gate", "soft_carrier", "knowing_trajectory_stabilizer", "intent_half", "idle"}


@pytest.mark.parametrize(
    "options",
    [{"sed": 1}, {"route": "other"}, {"soft": 0.5}, {"seed": -1}, {"seed": "x"}, {"gate": "perhaps"},
     {"route": "bias", "gate": "yes"}, {"route": "distributed", "carrier": "no"}, {"noise": 0.5}],
)  # fmt: skip
def test_options_that_cannot_be_are_refused(options):
    with pytest.raises(UserError):
        load_model("planted_kid", options=options)


def test_every_word_is_known_once():
    assert len(set(WORDS)) == len(WORDS)
    assert all(word in WORDS for rows in TABLE.values() for word, _ in rows)


@settings(max_examples=15, deadline=None)
@given(SEEDS, st.sampled_from([FAMILY, CONTROL]), st.integers(30, 400))
def test_prompts_are_split_by_operands_and_by_wording(seed, task, n):
    tokenizer = build_kid_tokenizer()
    prompts = make_prompts(TASKS[task].config_class(n=n, seed=seed), tokenizer)
    assert len(prompts) == n
    parts = {h: prompts.part(h) for h in ("screen", "probe", "test")}
    for what in ("operands", "template"):
        seen = [{getattr(t, what) for t in part.texts} for part in parts.values()]
        assert not (seen[0] & seen[1] or seen[0] & seen[2] or seen[1] & seen[2])
    for part in parts.values():
        counts = [sum(t.operation == o for t in part.texts) for o in KID[task].operators]
        assert max(counts) - min(counts) <= 1
    for text, target, ids in zip(prompts.texts, prompts.targets, prompts.ids, strict=True):
        answer = KID[task].operations[text.operation](text.operands)
        assert tokenizer.convert_ids_to_tokens(target[0]) == answer
        assert tokenizer.unk_token_id not in ids


def test_operations_agree_on_few_operand_pairs():
    for words in KID.values():
        for one in words.operations.values():
            for other in words.operations.values():
                same = sum(one(p) == other(p) for p in words.operands)
                assert same == len(words.operands) or same <= len(words.first)
