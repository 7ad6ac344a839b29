"""Small stock models of every family, with seeded random weights, and a tokenizer for them."""

from typing import Any

VOCAB = 160
LAYERS, HEADS, KV_HEADS, WIDTH = 3, 4, 2, 32

FAMILIES = (
    "gpt2",
    "gpt_neox",
    "llama",
    "mistral",
    "qwen2",
    "qwen3",
    "gemma2",
    "gemma3_text",
    "olmo",
    "olmo2",
    "olmo3",
    "olmoe",
    "mixtral",
    "qwen2_moe",
    "qwen3_moe",
    "phi3",
    "gpt_oss",
)
GROUPED = tuple(f for f in FAMILIES if f not in ("gpt2", "gpt_neox"))


def micro_config(family: str) -> Any:
    """A config of that family: 3 layers, 4 heads, 2 key-value heads where it has them, width 32."""
    from transformers import AutoConfig

    common = {
        "vocab_size": VOCAB,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": 2,
        "tie_word_embeddings": False,
    }
    if family == "gpt2":
        return AutoConfig.for_model(
            "gpt2",
            n_layer=LAYERS,
            n_head=HEADS,
            n_embd=WIDTH,
            n_positions=128,
            **{**common, "tie_word_embeddings": True},
        )
    sizes = {
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": 64,
        "max_position_embeddings": 128,
    }
    if family != "gpt_neox":
        sizes["num_key_value_heads"] = KV_HEADS
    special: dict[str, dict[str, Any]] = {
        # head_dim that is not width / heads, as in the released models of these families
        "qwen3": {"head_dim": 16},
        "qwen3_moe": {"head_dim": 16},
        "gemma2": {"head_dim": 16, "sliding_window": 8, "query_pre_attn_scalar": 16},
        "gemma3_text": {"head_dim": 16, "sliding_window": 8, "query_pre_attn_scalar": 16},
        "gpt_oss": {"head_dim": 16, "sliding_window": 8},
        "olmo": {"clip_qkv": 0.5},
        "olmo3": {"sliding_window": 8},
        "mistral": {"sliding_window": 8},
        "phi3": {"partial_rotary_factor": 1.0},
    }
    experts: dict[str, dict[str, Any]] = {
        "olmoe": {"num_experts": 4, "num_experts_per_tok": 2},
        "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
        "gpt_oss": {"num_local_experts": 4, "num_experts_per_tok": 2},
        "qwen2_moe": {
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 32,
            "shared_expert_intermediate_size": 32,
        },
        "qwen3_moe": {
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 32,
            "mlp_only_layers": [1],
        },
    }
    return AutoConfig.for_model(
        family, **common, **sizes, **special.get(family, {}), **experts.get(family, {})
    )


def micro_stock_model(family: str, seed: int = 0, **changes: Any) -> Any:
    """A stock model with seeded random weights that are large enough for every head to matter."""
    import torch
    from transformers import AutoModelForCausalLM

    config = micro_config(family)
    for key, value in changes.items():
        setattr(config, key, value)
    config._attn_implementation = "eager"
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager")
        for name, parameter in model.named_parameters():
            if parameter.ndim >= 2:
                torch.nn.init.normal_(parameter, std=0.15)
            elif name.endswith("bias") or "sinks" in name:
                torch.nn.init.normal_(parameter, std=0.1)
            else:
                torch.nn.init.normal_(parameter, mean=1.0, std=0.1)
    return model.eval()


def micro_tokenizer() -> Any:
    """A byte-level BPE tokenizer of at most ``VOCAB`` tokens, trained on a few sentences."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    text = [
        "When Mary and John went to the store, John gave a drink to Mary",
        "The war lasted from the year 1732 to the year 1740",
        "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    ]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB,
        special_tokens=["<bos>", "<eos>", "<pad>", "<unk>"],
        initial_alphabet=[*(chr(c) for c in range(33, 127)), "Ġ"],
        show_progress=False,
    )
    tokenizer.train_from_iterator(text, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<bos>", eos_token="<eos>", pad_token="<pad>", unk_token="<unk>"
    )
