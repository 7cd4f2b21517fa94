"""Diffusion U-Nets, transformers and autoencoders of diffusers."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from tests.coverage import torchvision_operators
from tests.coverage.family_cases.case import Built, Case
from tests.coverage.tiny import noise, randomized

torchvision_operators.declare()

import diffusers  # noqa: E402  (imports transformers)

_TIME = torch.tensor([3, 7])


def _built(kind: str, given: dict[str, Any], inputs: dict[str, Any]) -> Built:
    torch.manual_seed(0)
    return randomized(getattr(diffusers, kind)(**given)), (), inputs


def _case(kind: str, given: dict[str, Any], label: str = "", **inputs: Any) -> Case:
    return Case(f"diffusers {kind}{label}", "diffusion", partial(_built, kind, given, inputs))


_UNET = {"sample_size": 16, "block_out_channels": (16, 32), "layers_per_block": 1, "norm_num_groups": 8}
_CONDITIONED = {
    "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
    "cross_attention_dim": 16,
    "attention_head_dim": 4,
}
_AUTOENCODER = {
    "block_out_channels": (8, 16),
    "layers_per_block": 1,
    "norm_num_groups": 4,
    "latent_channels": 4,
    "down_block_types": ("DownEncoderBlock2D",) * 2,
    "up_block_types": ("UpDecoderBlock2D",) * 2,
}
_LATENT = noise(2, 4, 16, 16)

CASES = [
    _case(
        "UNet2DModel",
        _UNET
        | {
            "in_channels": 3,
            "out_channels": 3,
            "attention_head_dim": 4,
            "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
            "up_block_types": ("AttnUpBlock2D", "UpBlock2D"),
        },
        sample=noise(2, 3, 16, 16),
        timestep=_TIME,
    ),
    _case(
        "UNet2DConditionModel",
        _UNET | _CONDITIONED | {"up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D")},
        sample=_LATENT,
        timestep=_TIME,
        encoder_hidden_states=noise(2, 5, 16),
    ),
    _case(
        "UNet2DConditionModel",
        _UNET
        | _CONDITIONED
        | {
            "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"),
            "use_linear_projection": True,
            "addition_embed_type": "text_time",
            "addition_time_embed_dim": 8,
            "projection_class_embeddings_input_dim": 64,
            "transformer_layers_per_block": 1,
        },
        " of SDXL",
        sample=_LATENT,
        timestep=_TIME,
        encoder_hidden_states=noise(2, 5, 16),
        added_cond_kwargs={"text_embeds": noise(2, 16), "time_ids": noise(2, 6)},
    ),
    _case(
        "UNet1DModel",
        {
            "sample_size": 32,
            "in_channels": 4,
            "out_channels": 4,
            "block_out_channels": (32, 32, 64),
            "extra_in_channels": 64,
            "time_embedding_type": "fourier",
        },
        sample=noise(2, 4, 32),
        timestep=_TIME,
    ),
    _case(
        "UNet3DConditionModel",
        {
            "sample_size": 8,
            "block_out_channels": (8, 16),
            "layers_per_block": 1,
            "norm_num_groups": 4,
            "down_block_types": ("CrossAttnDownBlock3D", "DownBlock3D"),
            "up_block_types": ("UpBlock3D", "CrossAttnUpBlock3D"),
            "cross_attention_dim": 8,
            "attention_head_dim": 4,
        },
        sample=noise(1, 4, 2, 8, 8),
        timestep=3,
        encoder_hidden_states=noise(1, 5, 8),
    ),
    _case(
        "ControlNetModel",
        {
            "block_out_channels": (16, 32),
            "layers_per_block": 1,
            "norm_num_groups": 8,
            "conditioning_embedding_out_channels": (8, 16),
        }
        | _CONDITIONED,
        sample=_LATENT,
        timestep=_TIME,
        encoder_hidden_states=noise(2, 5, 16),
        controlnet_cond=noise(2, 3, 32, 32),
    ),
    _case("AutoencoderKL", _AUTOENCODER, sample=noise(2, 3, 16, 16)),
    _case("AutoencoderKL", _AUTOENCODER, " sampling", sample=noise(2, 3, 16, 16), sample_posterior=True),
    _case(
        "VQModel",
        {
            "block_out_channels": (8, 16),
            "layers_per_block": 1,
            "norm_num_groups": 4,
            "latent_channels": 3,
            "down_block_types": ("DownEncoderBlock2D",) * 2,
            "up_block_types": ("UpDecoderBlock2D",) * 2,
            "num_vq_embeddings": 16,
        },
        sample=noise(2, 3, 16, 16),
    ),
    _case(
        "AutoencoderTiny",
        {
            "encoder_block_out_channels": (8, 8),
            "decoder_block_out_channels": (8, 8),
            "num_encoder_blocks": (1, 1),
            "num_decoder_blocks": (1, 1),
        },
        sample=noise(2, 3, 16, 16),
    ),
    _case(
        "AutoencoderDC",
        {
            "latent_channels": 4,
            "encoder_block_out_channels": (8, 16),
            "decoder_block_out_channels": (8, 16),
            "encoder_layers_per_block": (1, 1),
            "decoder_layers_per_block": (1, 1),
            "attention_head_dim": 4,
            "encoder_block_types": ("ResBlock", "EfficientViTBlock"),
            "decoder_block_types": ("ResBlock", "EfficientViTBlock"),
            "encoder_qkv_multiscales": ((), (5,)),
            "decoder_qkv_multiscales": ((), (5,)),
        },
        sample=noise(2, 3, 16, 16),
    ),
    _case(
        "AsymmetricAutoencoderKL",
        {
            "down_block_types": ("DownEncoderBlock2D",),
            "down_block_out_channels": (8,),
            "up_block_types": ("UpDecoderBlock2D",),
            "up_block_out_channels": (8,),
            "norm_num_groups": 4,
        },
        sample=noise(2, 3, 16, 16),
    ),
    _case(
        "DiTTransformer2DModel",
        {
            "num_attention_heads": 2,
            "attention_head_dim": 8,
            "num_layers": 2,
            "sample_size": 16,
            "patch_size": 4,
            "norm_num_groups": 4,
            "num_embeds_ada_norm": 10,
        },
        hidden_states=_LATENT,
        timestep=_TIME,
        class_labels=torch.tensor([1, 4]),
    ),
    _case(
        "Transformer2DModel",
        {
            "num_attention_heads": 2,
            "attention_head_dim": 8,
            "in_channels": 4,
            "norm_num_groups": 2,
            "cross_attention_dim": 16,
        },
        hidden_states=_LATENT,
        encoder_hidden_states=noise(2, 5, 16),
    ),
    _case(
        "PixArtTransformer2DModel",
        {
            "num_attention_heads": 2,
            "attention_head_dim": 8,
            "num_layers": 1,
            "sample_size": 16,
            "patch_size": 4,
            "cross_attention_dim": 16,
            "caption_channels": 8,
            "norm_num_groups": 4,
            "use_additional_conditions": False,
        },
        hidden_states=_LATENT,
        timestep=_TIME,
        encoder_hidden_states=noise(2, 5, 8),
        added_cond_kwargs={"resolution": None, "aspect_ratio": None},
    ),
    _case(
        "SD3Transformer2DModel",
        {
            "sample_size": 16,
            "patch_size": 4,
            "in_channels": 4,
            "num_layers": 2,
            "attention_head_dim": 8,
            "num_attention_heads": 2,
            "joint_attention_dim": 16,
            "caption_projection_dim": 16,
            "pooled_projection_dim": 8,
            "out_channels": 4,
            "pos_embed_max_size": 8,
        },
        hidden_states=_LATENT,
        timestep=_TIME,
        encoder_hidden_states=noise(2, 5, 16),
        pooled_projections=noise(2, 8),
    ),
    _case(
        "FluxTransformer2DModel",
        {
            "patch_size": 1,
            "in_channels": 4,
            "num_layers": 1,
            "num_single_layers": 1,
            "attention_head_dim": 8,
            "num_attention_heads": 2,
            "joint_attention_dim": 16,
            "pooled_projection_dim": 8,
            "axes_dims_rope": (2, 2, 4),
        },
        hidden_states=noise(1, 6, 4),
        timestep=torch.tensor([0.3]),
        encoder_hidden_states=noise(1, 5, 16),
        pooled_projections=noise(1, 8),
        txt_ids=torch.zeros(5, 3),
        img_ids=torch.ones(6, 3),
    ),
    _case(
        "UVit2DModel",
        {
            "hidden_size": 16,
            "cond_embed_dim": 16,
            "encoder_hidden_size": 16,
            "vocab_size": 32,
            "codebook_size": 30,
            "block_out_channels": 16,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "intermediate_size": 24,
            "sample_size": 8,
            "micro_cond_encode_dim": 4,
            "micro_cond_embed_dim": 4 * 5,
            "in_channels": 16,
            "block_num_heads": 2,
            "num_res_blocks": 1,
        },
        input_ids=torch.ones(1, 8, 8, dtype=torch.int64),
        encoder_hidden_states=noise(1, 5, 16),
        pooled_text_emb=noise(1, 16),
        micro_conds=noise(1, 5),
    ),
    _case(
        "PriorTransformer",
        {
            "num_attention_heads": 2,
            "attention_head_dim": 8,
            "num_layers": 1,
            "embedding_dim": 8,
            "num_embeddings": 5,
            "additional_embeddings": 4,
        },
        hidden_states=noise(2, 8),
        timestep=_TIME,
        proj_embedding=noise(2, 8),
        encoder_hidden_states=noise(2, 5, 8),
    ),
    _case("T2IAdapter", {"channels": [8, 16], "num_res_blocks": 1, "downscale_factor": 4}, x=noise(2, 3, 16, 16)),
]
