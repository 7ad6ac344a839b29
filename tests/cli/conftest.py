"""The command line as a user runs it: a process, a folder, a small saved model of a stock class."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def cli_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved random Llama whose tokenizer has the tasks' words as single tokens."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    from mechexp.tasks import LEXICON

    words: list[str] = []

    def collect(value: Any) -> None:
        if isinstance(value, str):
            words.append(value)
        elif isinstance(value, dict):
            collect(list(value.values()))
        elif hasattr(value, "__iter__"):
            for one in value:
                collect(one)

    for field in fields(LEXICON):
        collect(getattr(LEXICON, field.name))
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    text = (
        [f" {w}" for w in words for _ in range(50)]
        + words * 30
        + ["When and went to the store, gave a lives in. to"] * 50
    )
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=2500, special_tokens=["<bos>", "<eos>"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(text, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<bos>", eos_token="<eos>")
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(fast),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
    )
    model = LlamaForCausalLM(config)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.15)
    folder = tmp_path_factory.mktemp("cli_model")
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def mlruns(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One initialised tracking store for the session."""
    from mechexp.tracking import TrackingConfig, open_store

    root = tmp_path_factory.mktemp("mlruns")
    with open_store(TrackingConfig(root=str(root))):
        return root


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """``run("model=local", …)``: ``python -m mechexp …`` in an empty folder."""

    def go(*arguments: str, module: str = "mechexp", cwd: Path = tmp_path, **env: str) -> Any:
        return subprocess.run(
            [sys.executable, "-m", module, *arguments],
            cwd=cwd,
            env={**os.environ, "OMP_NUM_THREADS": "1", **env},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return go


@pytest.fixture(scope="session")
def small(cli_model: Path, mlruns: Path) -> list[str]:
    """Overrides of a job of seconds, on a model that counts as competent because no skill is asked for."""
    return [
        "model=local",
        f"model.path={cli_model}",
        f"tracking.root={mlruns}",
        "task.n=48",
        "control.max_sets=5",
        "taxonomy.min_top1=0",
        "taxonomy.min_frac_correct=0",
        "protocol.bootstrap=200",
    ]


@pytest.fixture
def here(tmp_path: Path, cli_model: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """``mechexp`` in this process and an empty folder (see ``here.py``)."""
    from here import Here

    return Here(tmp_path, cli_model, monkeypatch)
