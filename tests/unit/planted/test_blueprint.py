"""Blueprints: drawn from a seed, consistent with their truth, refusing what cannot be."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechexp.errors import UserError
from mechexp.models import load_model
from mechexp.models.loading import release_models
from mechexp.planted import PlantedOptions, draw_blueprint, write_model
from mechexp.planted.blueprint import N_HEADS, N_LAYERS, SCREENS
from mechexp.planted.labels import MARGIN

SEEDS = st.integers(0, 10**6)


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_the_seed_decides_everything(seed):
    options = PlantedOptions(seed=seed)
    assert draw_blueprint(options) == draw_blueprint(options)
    assert draw_blueprint(options).heads != draw_blueprint(PlantedOptions(seed=seed + 1)).heads


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.sampled_from(["path", "direct", "background"]))
def test_truth_hangs_together(seed, profile):
    b = draw_blueprint(PlantedOptions(seed=seed, profile=profile))
    assert [(h.layer, h.head) for h in b.heads] == [(l, h) for l in range(N_LAYERS) for h in range(N_HEADS)]
    clean = sum(h.support for h in b.heads)
    causes = sorted(
        (s.support for s in b.screens.values() if s.role in ("primary", "secondary")), reverse=True
    )
    assert set(b.screens) == set(SCREENS)
    for name, screen in b.screens.items():
        assert set(screen.heads) == {(h.layer, h.head) for h in b.heads if h.pattern == name}
        assert screen.share == pytest.approx(screen.support / clean)
        assert len({layer for layer, _ in screen.heads}) == 1
        if screen.role == "primary":
            assert screen.support == causes[0]
        if screen.role in ("interferer", "constant_interferer"):
            assert screen.support < 0
        if screen.role == "correlate":
            assert screen.direct == 0
    assert (profile == "background") == (not causes)
    assert len(causes) < 2 or causes[0] - causes[1] >= MARGIN * causes[0]


def test_strength_profile_and_repair_are_what_is_asked():
    for seed in range(12):
        b = draw_blueprint(PlantedOptions(seed=seed, profile="path", strength=0.25))
        assert b.profile == "path"
        for s in b.screens.values():
            if s.role in ("interferer", "constant_interferer"):
                assert s.direct == pytest.approx(-0.25)
        repaired = draw_blueprint(PlantedOptions(seed=seed, repaired="yes"))
        assert repaired.screens["induction"].role == "repaired"
        assert [h.role for h in repaired.heads].count("repair") == 1
        assert (
            draw_blueprint(PlantedOptions(seed=seed, profile="direct", repaired="no")).roles["induction"]
            != "repaired"
        )


@pytest.mark.parametrize(
    "options",
    [{"sed": 1}, {"profile": "other"}, {"strength": 2.0}, {"seed": -1}, {"seed": "x"}, {"repaired": "maybe"},
     {"repaired": "yes", "profile": "path"}, {"noise": 0.9}],
)  # fmt: skip
def test_options_that_cannot_be_are_refused(options):
    with pytest.raises(UserError):
        load_model("planted", options=options)


def test_the_same_options_give_the_same_weights_and_another_seed_others():
    def digest(seed):
        release_models()
        return load_model("planted", options={"seed": seed}, device="cpu").weights_hash

    assert digest(4) == digest(4)
    assert digest(4) != digest(5)


def test_noise_changes_weights_but_no_role():
    quiet, noisy = (draw_blueprint(PlantedOptions(seed=8, noise=n)) for n in (0.0, 0.2))
    assert quiet.roles == noisy.roles
    assert quiet.noise == 0.0
    assert noisy.noise == 0.2
    a, b = (write_model(x).transformer.h[0].attn.c_proj.weight for x in (quiet, noisy))
    assert not bool((a == b).all())
