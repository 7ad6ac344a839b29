"""Fixtures that all tests share: small stock models of every family, saved or in memory."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from micro_models import micro_stock_model, micro_tokenizer


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--runslow", action="store_true", default=False, help="run tests marked slow")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes long; run with --runslow")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--runslow"):
        return
    skip = pytest.mark.skip(reason="slow: run with --runslow")
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(skip)


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """Micro models run faster on one thread than on several."""
    try:
        import torch
    except ImportError:
        return
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def micro_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """``micro_folder(family)``: a saved micro model with its tokenizer, made once; do not change it."""
    made: dict[str, Path] = {}

    def folder(family: str) -> Path:
        if family not in made:
            path = tmp_path_factory.mktemp(f"micro_{family}")
            micro_stock_model(family).save_pretrained(path)
            micro_tokenizer().save_pretrained(path)
            made[family] = path
        return made[family]

    return folder


@pytest.fixture(scope="session")
def micro_model() -> Callable[[str], Any]:
    """``micro_model(family)``: a verified ``LoadedModel``, made once a session; leave it as you found it."""
    made: dict[str, Any] = {}

    def model(family: str) -> Any:
        from mechexp.models.loading import wrap
        from mechexp.models.settings import ModelSettings
        from mechexp.models.sources import StockModel

        if family not in made:
            stock = StockModel(micro_stock_model(family), micro_tokenizer(), id=f"micro/{family}")
            settings = ModelSettings(name=f"micro_{family}", source="local", screen_length=32)
            made[family] = wrap(stock, settings)
        return made[family]

    return model


@pytest.fixture
def own_micro_model(micro_model: Callable[[str], Any]) -> Callable[[str], Any]:
    """``own_micro_model(family)``: a copy that the test may damage."""
    from dataclasses import replace

    def model(family: str) -> Any:
        shared = micro_model(family)
        return replace(shared, model=copy.deepcopy(shared.model))

    return model
