"""Mixtures of experts."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.coverage.family_cases.case import Built, Case
from tests.coverage.tiny import ids, mask, model


def _text(kind: str, /, **given: Any) -> Built:
    return model(kind, **given), (), {"input_ids": ids(2, 7), "attention_mask": mask(2, 7)}


def _case(kind: str, /, label: str = "", **given: Any) -> Case:
    return Case(kind + label, "mixtures of experts", partial(_text, kind, **given))


CASES = [
    _case("MixtralForCausalLM"),
    _case("MixtralModel"),
    _case("Qwen2MoeForCausalLM"),
    _case("Qwen3MoeForCausalLM"),
    _case("DeepseekV2ForCausalLM", first_k_dense_replace=1, num_key_value_heads=4, num_experts_per_tok=2),
    _case("DeepseekV3ForCausalLM", first_k_dense_replace=1, num_key_value_heads=4),
    _case("OlmoeForCausalLM"),
    _case("FlexOlmoForCausalLM"),
    _case("GraniteMoeForCausalLM"),
    _case("GraniteMoeSharedForCausalLM", shared_intermediate_size=24),
    _case("JetMoeForCausalLM", kv_channels=8),
    _case("PhimoeForCausalLM"),
    _case("GptOssForCausalLM", sliding_window=4),
    _case(
        "DbrxForCausalLM",
        attn_config={"kv_n_heads": 2, "rope_theta": 10000.0, "clip_qkv": 0.3},
        ffn_config={"ffn_hidden_size": 24, "moe_num_experts": 4, "moe_top_k": 2},
    ),
    _case("Dots1ForCausalLM", n_routed_experts=4, n_shared_experts=1, num_experts_per_tok=2, first_k_dense_replace=1),
    _case("Ernie4_5_MoeForCausalLM", moe_num_experts=4, moe_k=2),
    _case("Glm4MoeForCausalLM", first_k_dense_replace=1),
    _case("HunYuanMoEV1ForCausalLM", moe_topk=2, num_experts=4, head_dim=8),
    _case("MiniMaxForCausalLM", block_size=4),
    _case("Lfm2MoeForCausalLM", layer_types=["conv", "full_attention"], num_dense_layers=1, conv_L_cache=3),
    _case("LongcatFlashForCausalLM", expert_ffn_hidden_size=24, zero_expert_num=2),
    _case("AfmoeForCausalLM", num_dense_layers=1),
    _case(
        "Qwen3NextForCausalLM",
        layer_types=["linear_attention", "full_attention"],
        linear_num_value_heads=4,
        linear_num_key_heads=2,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
    ),
]
