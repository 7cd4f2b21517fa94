"""State-space models, linear attention and other recurrent decoders."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.coverage.family_cases.case import Built, Case
from tests.coverage.tiny import ids, model


def _text(kind: str, /, **given: Any) -> Built:
    return model(kind, **given), (), {"input_ids": ids(2, 7)}


def _case(kind: str, /, label: str = "", **given: Any) -> Case:
    return Case(kind + label, "state-space models", partial(_text, kind, **given))


_MAMBA = {"state_size": 4, "intermediate_size": 64, "time_step_rank": 4}
_MAMBA2 = {"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 8, "mamba_chunk_size": 4, "mamba_n_groups": 1}
_XLSTM = {
    "hidden_size": 64,
    "num_blocks": 1,
    "num_hidden_layers": 1,
    "num_heads": 2,
    "qk_dim_factor": 1.0,
    "autocast_kernel_dtype": "float32",
}

CASES = [
    _case("MambaForCausalLM", **_MAMBA),
    _case("MambaForCausalLM", label=" without cache", use_cache=False, **_MAMBA),
    _case("FalconMambaForCausalLM", **_MAMBA),
    _case("Mamba2ForCausalLM", state_size=8, num_heads=8, head_dim=8, n_groups=1, chunk_size=4),
    _case(
        "JambaForCausalLM",
        attn_layer_period=2,
        attn_layer_offset=1,
        expert_layer_period=2,
        expert_layer_offset=1,
        mamba_d_state=4,
        mamba_dt_rank=4,
        use_mamba_kernels=False,
    ),
    _case("BambaForCausalLM", attn_layer_indices=[1], **_MAMBA2),
    # with a cache, the states are overwritten in eval mode, and torch itself has no backward
    _case("RwkvForCausalLM", attention_hidden_size=32, intermediate_size=48, rescale_every=0, use_cache=False),
    _case("RecurrentGemmaForCausalLM", num_hidden_layers=3, lru_width=32, attention_window_size=4),
    _case("GraniteMoeHybridForCausalLM", layer_types=["mamba", "attention"], shared_intermediate_size=24, **_MAMBA2),
    _case(
        "Zamba2ForCausalLM",
        layers_block_type=["mamba", "hybrid"],
        n_mamba_heads=4,
        mamba_d_state=8,
        chunk_size=4,
        mamba_headdim=16,
        mamba_ngroups=1,
        use_mem_rope=True,
        hybrid_layer_ids=[1],
    ),
    _case(
        "ZambaForCausalLM",
        layers_block_type=["mamba", "hybrid", "hybrid"],
        num_hidden_layers=3,
        mamba_d_state=4,
        mamba_dt_rank=4,
        n_mamba_heads=2,
        attention_hidden_size=64,
        attention_head_dim=16,
        use_mamba_kernels=False,
    ),
    _case(
        "NemotronHForCausalLM",
        layers_block_type=["mamba", "attention"],
        mamba_num_heads=4,
        mamba_head_dim=16,
        ssm_state_size=8,
        chunk_size=4,
        n_groups=1,
    ),
    _case("FalconH1ForCausalLM", mamba_d_ssm=64, **_MAMBA2),
    _case("Lfm2ForCausalLM", layer_types=["conv", "full_attention"], conv_L_cache=3),
    # torch has no backward through chunks with a cache: transformers writes the states into it in place
    _case("xLSTMForCausalLM", use_cache=False, chunk_size=4, **_XLSTM),
    _case("xLSTMForCausalLM", label=" with cache", chunk_size=16, **_XLSTM),
]
