"""Models of transformers with small random configurations."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import torch

from tests.coverage import torchvision_operators

torchvision_operators.declare()

import transformers  # noqa: E402  (imports torchvision)

VOCABULARY = 61

# for every configuration that has a field of that name, in what the libraries call a size
SMALL: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "embed_dim", "embedding_size", "dim", "emb_dim"), 32),
    **dict.fromkeys(("intermediate_size", "encoder_ffn_dim", "decoder_ffn_dim", "ffn_dim", "d_ff", "mlp_dim"), 48),
    **dict.fromkeys(("n_inner", "ffn_hidden_size", "decoder_intermediate_size"), 48),
    **dict.fromkeys(("num_hidden_layers", "encoder_layers", "decoder_layers", "num_layers", "n_layer", "n_layers"), 2),
    **dict.fromkeys(("num_encoder_layers", "num_decoder_layers", "depth", "decoder_num_hidden_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "num_heads", "n_head", "n_heads", "attention_heads"), 4),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads", "decoder_num_attention_heads"), 4),
    **dict.fromkeys(("num_key_value_heads", "n_group", "topk_group", "num_experts_per_tok", "moe_topk"), 2),
    **dict.fromkeys(("head_dim", "d_kv", "v_head_dim", "qk_nope_head_dim", "qk_rope_head_dim", "rotary_dim"), 8),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), 4),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size", "expert_ffn_dim"), 24),
    **dict.fromkeys(("kv_lora_rank", "q_lora_rank", "projection_dim", "hidden_dim"), 16),
    **dict.fromkeys(("vocab_size", "vocab_size_or_config_json_file"), VOCABULARY),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "max_seq_len", "max_source_positions"), 64),
    **dict.fromkeys(("max_target_positions", "max_2d_position_embeddings"), 64),
    **dict.fromkeys(("image_size", "pretrain_image_size"), 32),
    "patch_size": 8,
    "num_queries": 5,
    **dict.fromkeys(("eos_token_id", "sep_token_id"), 2),
    **dict.fromkeys(("bos_token_id", "decoder_start_token_id"), 1),
    "pad_token_id": 0,
}


# whether a layer is left out is drawn at random, in Python: torch.export refuses it
NO_LAYER_DROPPED = dict.fromkeys(("layerdrop", "encoder_layerdrop", "decoder_layerdrop"), 0.0)


def configuration(kind: type, **given: Any) -> Any:
    """A configuration of class `kind`, small wherever `given` doesn't say otherwise.

    `given` for an inner configuration is a dict of its fields.
    """
    fields = {field.name: field for field in dataclasses.fields(kind)}
    inner = {
        name: configuration(of, **given.pop(name, {}))
        for name, of in (getattr(kind, "sub_configs", None) or {}).items()
        if isinstance(of, type) and dataclasses.is_dataclass(of) and not isinstance(given.get(name), of)
    }
    small = {name: size for name, size in SMALL.items() if name in fields and _is_number(fields[name].default)}
    whole = {name: rate for name, rate in NO_LAYER_DROPPED.items() if name in fields}
    return kind(**(small | whole | inner | given))


def _is_number(default: Any) -> bool:
    return isinstance(default, int) and not isinstance(default, bool)


def model(name: str, /, **given: Any) -> torch.nn.Module:
    """The class `name` of transformers, with random weights in a small configuration."""
    kind = getattr(transformers, name)
    torch.manual_seed(0)
    made: torch.nn.Module = kind(configuration(kind.config_class, **given))
    return randomized(made)


def randomized(module: torch.nn.Module) -> torch.nn.Module:
    """The module with noise on its parameters: zeros and ones that an initializer left would hide faults.

    Of wide layers, it is so small that values don't grow from layer to layer.
    """
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.is_floating_point() and parameter.numel():
                taken = parameter[0].numel() if parameter.ndim else 1
                scale = min(0.05, 0.3 / math.sqrt(taken))
                parameter += scale * torch.randn(parameter.shape, generator=generator)
    return module


def ids(*shape: int, vocabulary: int = VOCABULARY, low: int = 3) -> torch.Tensor:
    """Token ids without special ones."""
    return torch.randint(low, vocabulary, shape, generator=torch.Generator().manual_seed(2))


def mask(batch: int = 2, length: int = 7) -> torch.Tensor:
    """A mask of padded sequences: the last of the batch is three tokens shorter."""
    attended = torch.ones(batch, length, dtype=torch.int64)
    attended[-1, length - 3 :] = 0
    return attended


def noise(*shape: int, seed: int = 3) -> torch.Tensor:
    """Normal numbers."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
