"""A mixture of experts has several of them."""

from typing import Any


def test_a_single_expert_is_a_dense_mlp(own_micro_model: Any) -> None:
    loaded = own_micro_model("olmoe")
    assert loaded.is_moe
    loaded.model.config.num_experts = 1
    assert not loaded.is_moe
    assert not own_micro_model("llama").is_moe and own_micro_model("mixtral").is_moe
