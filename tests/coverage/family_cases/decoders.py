"""Decoders of text, with and without a key-value cache."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from tests.coverage.family_cases.case import Built, Case
from tests.coverage.tiny import ids, mask, model


def _prompt(kind: str, /, **given: Any) -> Built:
    """A prompt with padding; the cache comes out."""
    return model(kind, **given), (), {"input_ids": ids(2, 7), "attention_mask": mask(2, 7)}


def _next_token(kind: str, /, **given: Any) -> Built:
    """Two more tokens after a prompt whose keys and values are given."""
    module = model(kind, **given)
    with torch.no_grad():
        past = module.eval()(input_ids=ids(2, 5), use_cache=True).past_key_values
    return module, (), {"input_ids": ids(2, 2), "past_key_values": past}


def _case(kind: str, /, label: str = "", **given: Any) -> Case:
    return Case(kind + label, "decoders", partial(_prompt, kind, **given))


def _cached(kind: str, /, **given: Any) -> Case:
    return Case(f"{kind} with cache", "decoders with cache", partial(_next_token, kind, **given))


_PARALLEL = {"n_embd": 32, "n_head": 4, "n_layer": 2, "rotary_dim": 4, "n_positions": 64}
_GEMMA = {"query_pre_attn_scalar": 8, "sliding_window": 4}

CASES = [
    _case("GPT2LMHeadModel"),
    _case("GPT2LMHeadModel", label=" without cache", use_cache=False),
    _case("GPTNeoForCausalLM", attention_types=[[["global", "local"], 1]], window_size=4),
    _case("GPTNeoXForCausalLM"),
    _case("GPTNeoXJapaneseForCausalLM"),
    _case("GPTJForCausalLM", **_PARALLEL),
    _case("GPTBigCodeForCausalLM"),
    _case("CodeGenForCausalLM", **_PARALLEL),
    _case("LlamaForCausalLM"),
    _case("LlamaForSequenceClassification", use_cache=False, pad_token_id=0),
    _case("MistralForCausalLM", sliding_window=4),
    _case("MinistralForCausalLM", sliding_window=4, head_dim=8),
    _case("Qwen2ForCausalLM"),
    _case("Qwen3ForCausalLM"),
    _case("GemmaForCausalLM"),
    _case("Gemma2ForCausalLM", **_GEMMA),
    _case("Gemma3ForCausalLM", **_GEMMA),
    _case(
        "Gemma3nForCausalLM",
        **_GEMMA,
        hidden_size_per_layer_input=8,
        vocab_size_per_layer_input=61,
        laurel_rank=8,
        num_kv_shared_layers=0,
        intermediate_size=[48, 48],
        activation_sparsity_pattern=[0.5, 0.0],
        layer_types=["sliding_attention", "full_attention"],
    ),
    _case("VaultGemmaForCausalLM", **_GEMMA),
    _case("PhiForCausalLM"),
    _case("Phi3ForCausalLM"),
    _case("OPTForCausalLM", word_embed_proj_dim=32),
    _case("BloomForCausalLM"),
    _case("FalconForCausalLM"),
    _case("FalconForCausalLM", label=" with alibi", alibi=True, new_decoder_architecture=False, multi_query=False),
    _case("StableLmForCausalLM"),
    _case("OlmoForCausalLM"),
    _case("Olmo2ForCausalLM"),
    _case("Olmo3ForCausalLM", sliding_window=4),
    _case("CohereForCausalLM"),
    _case("Cohere2ForCausalLM", sliding_window=4),
    _case("MptForCausalLM"),
    _case("Starcoder2ForCausalLM"),
    _case("GraniteForCausalLM"),
    _case("SmolLM3ForCausalLM"),
    _case("HeliumForCausalLM"),
    _case("NemotronForCausalLM", num_key_value_heads=2, head_dim=8),
    _case("GlmForCausalLM"),
    _case("Glm4ForCausalLM"),
    _case("PersimmonForCausalLM"),
    _case("BioGptForCausalLM"),
    _case("XGLMForCausalLM"),
    _case("CTRLLMHeadModel", dff=48),
    _case("OpenAIGPTLMHeadModel"),
    _case("DiffLlamaForCausalLM"),
    _case("Exaone4ForCausalLM", sliding_window=4),
    _case("Ernie4_5ForCausalLM"),
    _case("ApertusForCausalLM"),
    _case("ArceeForCausalLM"),
    _case("BitNetForCausalLM"),
    _case("SeedOssForCausalLM"),
    _case("HunYuanDenseV1ForCausalLM", head_dim=8),
    _case("MiniCPM3ForCausalLM", num_key_value_heads=4),
    _case("NanoChatForCausalLM"),
    _case("ModernBertDecoderForCausalLM"),
    _case("YoutuForCausalLM", num_key_value_heads=4),
    _case("DogeForCausalLM"),
    _case("ImageGPTModel"),
    _case("BertLMHeadModel", is_decoder=True),
    _case("CpmAntForCausalLM", dim_head=8, dim_ff=48, prompt_length=4, segment_types=4),
    _cached("GPT2LMHeadModel"),
    _cached("GPTNeoXForCausalLM"),
    _cached("GPTJForCausalLM", **_PARALLEL),
    _cached("LlamaForCausalLM"),
    _cached("MistralForCausalLM", sliding_window=4),
    _cached("Qwen2ForCausalLM"),
    _cached("Qwen3ForCausalLM"),
    _cached("Gemma3ForCausalLM", **_GEMMA),
    _cached("PhiForCausalLM"),
    _cached("OPTForCausalLM", word_embed_proj_dim=32),
    _cached("BloomForCausalLM"),
    _cached("FalconForCausalLM"),
    _cached("MixtralForCausalLM"),
    _cached("DeepseekV3ForCausalLM", first_k_dense_replace=1, num_key_value_heads=4),
]
