"""Each control's own rules, the options it refuses, and adaptive growth."""

from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from mechexp.controls import CONTROLS, ControlConfig, check, draw, extend, next_sets
from mechexp.errors import UserError
from mechexp.models.heads import Geometry, Head
from mechexp.screens.circuit import Circuit

CONF = Path(__file__).parents[3] / "conf" / "control"
CIRCUIT = Circuit("s", (Head(1, 0), Head(0, 3)), "model", "", "", Geometry(2, 8, 4))  # 49 sets


@pytest.mark.parametrize("path", sorted(CONF.glob("*.yaml")), ids=lambda p: p.stem)
def test_each_choice_draws_with_its_own_settings(path):
    row = yaml.safe_load(path.read_text())
    config = ControlConfig(**row)
    assert path.stem in (config.name, f"matched_{config.max_sets}")
    check(config)
    matched = draw(CIRCUIT, control=config.name, max_sets=config.max_sets, exact_limit=config.exact_limit)
    expected = {"matched_random": 49, "exact": 49, "paper": 10, "none": 0}
    assert len(matched.sets) == expected[config.name]


def test_every_control_has_a_choice_and_every_option_a_field():
    choices = {p.stem for p in CONF.glob("*.yaml")}
    assert choices >= set(CONTROLS)
    names = {f.name for f in fields(ControlConfig)}
    assert all(set(yaml.safe_load(p.read_text())) <= names for p in CONF.glob("*.yaml"))


def test_unknown_control():
    with pytest.raises(UserError, match=r"unknown control 'random'(.|\n)*matched_random"):
        draw(CIRCUIT, control="random")


def test_exact_is_refused_above_its_limit():
    with pytest.raises(UserError, match=r"49 matched sets(.|\n)*exact_limit=48"):
        draw(CIRCUIT, control="exact", exact_limit=48)
    assert len(draw(CIRCUIT, control="exact", exact_limit=49).sets) == 49


def test_options_a_control_would_ignore_are_refused():
    for control, options in (
        ("exact", {"max_sets": 19}),
        ("paper", {"max_sets": 99}),
        ("none", {"max_sets": 19}),
        ("matched_random", {"max_sets": 0}),
    ):
        with pytest.raises(UserError, match="max_sets"):
            draw(CIRCUIT, control=control, **options)
    with pytest.raises(UserError, match="match_on"):
        draw(CIRCUIT, control="paper", match_on="layer_bos", bos_heads=[])
    with pytest.raises(UserError, match="cannot grow"):
        check(ControlConfig(name="paper", adaptive=True))
    with pytest.raises(UserError, match="exact_limit"):
        check(ControlConfig(exact_limit=0))
    check(ControlConfig(adaptive=True))


def test_paper_says_that_ten_sets_are_too_few_and_where_sets_repeat():
    narrow = Circuit("s", (Head(0, 0),), "model", "", "", Geometry(1, 4, 4))
    notes = draw(narrow, control="paper").notes
    assert any("p < .05" in n for n in notes)
    assert any("of the 10 sets are distinct" in n for n in notes)


def test_paper_follows_the_circuits_own_order():
    back = Circuit("s", CIRCUIT.heads[::-1], "model", "", "", CIRCUIT.geometry)
    assert draw(CIRCUIT, control="paper").sets != draw(back, control="paper").sets


def test_none_says_so():
    assert "no null" in draw(CIRCUIT, control="none").notes[0]


def grow(drawn, **options):
    return next_sets(drawn, **{"total": 10**9, "exact_limit": 20_000, "decided": False, **options})


def test_growth_stops_when_decided():
    step = grow(99, decided=True)
    assert step.done
    assert step.sets == 99
    assert "decided" in step.reason


def test_growth_doubles_or_goes_to_what_is_needed_within_the_limits():
    assert grow(99).sets == 199
    assert grow(99, needed=119).sets == 199
    assert grow(99, needed=1199).sets == 1199
    assert grow(99, needed=1199, total=500).sets == 500
    assert grow(99, needed=1199, exact_limit=150).sets == 150


def test_growth_stops_at_the_limit_and_says_which():
    assert grow(500, total=500).done
    assert "all that exist" in grow(500, total=500).reason
    assert grow(150, exact_limit=150).done
    assert "exact_limit=150" in grow(150, exact_limit=150).reason


def test_growth_ends():
    drawn, rounds = 19, 0
    while not (step := grow(drawn)).done:
        assert step.sets > drawn
        drawn, rounds = step.sets, rounds + 1
    assert drawn == 20_000
    assert rounds < 12


def test_only_the_beginning_of_the_same_draw_can_be_extended():
    first = draw(CIRCUIT, max_sets=5, seed=3)
    assert extend(first, CIRCUIT, 49, seed=3).exact
    with pytest.raises(ValueError, match="not drawn by"):
        extend(first, CIRCUIT, 10, seed=4)
