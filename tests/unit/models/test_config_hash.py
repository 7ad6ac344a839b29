"""Equal weights under another config are another model to the outcome store."""

from typing import Any


def test_the_config_decides_too(own_micro_model: Any) -> None:
    one, same, other = (own_micro_model("mistral") for _ in range(3))
    same.model.config._name_or_path = "/somewhere/else"
    other.model.config.sliding_window = 4
    assert one.weights_hash == other.weights_hash
    assert one.config_hash == same.config_hash
    assert one.config_hash != other.config_hash
