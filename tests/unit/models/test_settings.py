"""Model names, folders and hub ids become the same settings that a config gives."""

from dataclasses import fields

import pytest
import yaml

from mechexp.config import ModelConfig
from mechexp.errors import UserError
from mechexp.models.settings import SETTINGS, ModelSettings, from_config, from_name, known_names
from mechexp.models.sources import source_of
from mechexp.paths import cache_dir, conf_dir


def test_settings_and_config_have_the_same_fields_and_defaults():
    config = {f.name: f.default for f in fields(ModelConfig)}
    settings = {f.name: f.default for f in fields(ModelSettings)}
    assert list(config) == list(settings) == list(SETTINGS)
    special = ("name", "checkpoints", "options")
    assert {k: v for k, v in config.items() if k not in special} == {
        k: v for k, v in settings.items() if k not in special
    }


@pytest.mark.parametrize("name", known_names())
def test_every_model_file_is_complete_and_right(name):
    values = yaml.safe_load((conf_dir() / "model" / f"{name}.yaml").read_text())
    assert values["name"] == name
    assert set(values) <= set(SETTINGS)
    assert {"source", "dtype", "device", "attn_implementation", "screen_length"} <= set(values)
    # the same whether composed into the schema or read by name in a notebook
    assert from_name(name) == from_config(ModelConfig(**values))
    tokens = list(values.get("checkpoints", {}).values())
    assert tokens == sorted(tokens)
    assert callable(source_of(from_name(name)))


def test_the_offered_models_are_there():
    wanted = (
        "smollm2 tiny_pythia tiny_olmo tiny_olmoe planted planted_kid pythia olmo olmoe olmo2 mixtral "
        "qwen25_7b llama3_8b"
    )
    assert {*wanted.split(), "mistral_7b", "hub", "local"} <= set(known_names())


def test_checkpoints_of_pythia_are_its_steps_times_its_batch():
    values = yaml.safe_load((conf_dir() / "model" / "pythia.yaml").read_text())["checkpoints"]
    assert len(values) == 10
    for revision, billions in values.items():
        assert billions == pytest.approx(int(revision.removeprefix("step")) * 2097152 / 1e9, rel=1e-5)


@pytest.mark.parametrize("model", ["olmo", "olmoe"])
def test_checkpoints_of_olmo_are_named_by_their_tokens(model):
    values = yaml.safe_load((conf_dir() / "model" / f"{model}.yaml").read_text())["checkpoints"]
    assert len(values) == 10
    assert all(revision.endswith(f"-tokens{billions}B") for revision, billions in values.items())


def test_a_folder_and_a_hub_id_are_told_apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "owner" / "mine").mkdir(parents=True)
    assert from_name("owner/mine").source == "local"
    assert from_name(tmp_path / "owner" / "mine").name == "mine"
    hub = from_name("owner/other", revision="step1")
    assert (hub.source, hub.id, hub.revision) == ("hub", "owner/other", "step1")


def test_overrides_win_over_the_file():
    assert from_name("pythia").revision == ""
    assert from_name("pythia", revision="step512", dtype="bfloat16").dtype == "bfloat16"
    assert from_name("pythia", revision="step512").revision == "step512"


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"dtype": "fp32"}, "one of float32, bfloat16, float16"),
        ({"attn_implementation": "fast"}, "one of eager"),
        ({"screen_length": 4}, "at least 16"),
        ({"device": "cpu", "device_map": "auto"}, "one of the two"),
        ({"precision": "x"}, "no model setting precision"),
    ],
)
def test_settings_that_cannot_be_are_refused(changes, match):
    with pytest.raises(UserError, match=match):
        from_name("smollm2", **changes)


@pytest.mark.parametrize("name", ["smolm2", "./nowhere", "a/b/c", "/no/folder"])
def test_an_unknown_model_is_refused_with_the_known_ones(name):
    with pytest.raises(UserError, match=r"smollm2.*tiny_pythia") as caught:
        from_name(name)
    assert repr(name) in str(caught.value)


def test_an_unknown_source_is_refused():
    with pytest.raises(UserError, match="unknown model source 'cloud'"):
        source_of(ModelSettings(name="x", source="cloud"))


def test_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("MECHEXP_CACHE", str(tmp_path / "here"))
    assert cache_dir() == tmp_path / "here"
    monkeypatch.delenv("MECHEXP_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_dir() == tmp_path / "xdg" / "mechexp"
