"""Time series, documents, tables, decisions, proteins and other kinds."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from tests.coverage.family_cases.case import Built, Case
from tests.coverage.tiny import ids, mask, model, noise


def _built(kind: str, given: dict[str, Any], inputs: dict[str, Any]) -> Built:
    return model(kind, **given), (), inputs


def _case(kind: str, given: dict[str, Any], label: str = "", **inputs: Any) -> Case:
    return Case(kind + label, "others", partial(_built, kind, given, inputs))


_PATCHES = {"num_input_channels": 3, "context_length": 16, "patch_length": 4, "patch_stride": 4, "prediction_length": 4}
_SERIES = {
    "prediction_length": 4,
    "context_length": 8,
    "lags_sequence": [1, 2],
    "num_time_features": 2,
    "input_size": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
}
_PAST = {
    "past_values": noise(2, 10),
    "past_time_features": noise(2, 10, 2),
    "past_observed_mask": torch.ones(2, 10),
    "future_values": noise(2, 4, seed=5),
    "future_time_features": noise(2, 4, 2),
}
_BOXES = torch.sort(torch.randint(0, 60, (2, 7, 2, 2), generator=torch.Generator().manual_seed(4)), 2).values.flatten(2)

CASES = [
    _case("PatchTSTModel", _PATCHES, past_values=noise(2, 16, 3)),
    _case("PatchTSTForPrediction", _PATCHES, past_values=noise(2, 16, 3)),
    _case("PatchTSMixerModel", _PATCHES, past_values=noise(2, 16, 3)),
    _case("TimeSeriesTransformerModel", _SERIES, **_PAST),
    _case("InformerModel", _SERIES, **_PAST),
    _case("InformerModel", _SERIES | {"attention_type": "full"}, " full attention", **_PAST),
    _case("AutoformerModel", _SERIES | {"label_length": 2}, **_PAST),
    _case(
        "DecisionTransformerModel",
        {"state_dim": 5, "act_dim": 3, "max_ep_len": 32},
        states=noise(2, 4, 5),
        actions=noise(2, 4, 3),
        rewards=noise(2, 4, 1),
        returns_to_go=noise(2, 4, 1),
        timesteps=torch.arange(4).repeat(2, 1),
        attention_mask=torch.ones(2, 4),
    ),
    _case("LayoutLMModel", {}, input_ids=ids(2, 7), bbox=_BOXES, attention_mask=mask()),
    _case(
        "LiltModel",
        {"channel_shrink_ratio": 2, "hidden_size": 48},
        input_ids=ids(2, 7),
        bbox=_BOXES,
        attention_mask=mask(),
    ),
    _case(
        "LayoutLMv3Model",
        {"input_size": 32, "coordinate_size": 4, "shape_size": 8, "patch_size": 8},
        input_ids=ids(2, 7),
        bbox=_BOXES,
        attention_mask=mask(),
        pixel_values=noise(2, 3, 32, 32),
    ),
    _case(
        "TapasModel",
        {"type_vocab_sizes": [3, 8, 8, 2, 8, 8, 4]},
        input_ids=ids(2, 7),
        attention_mask=mask(),
        token_type_ids=torch.randint(0, 2, (2, 7, 7), generator=torch.Generator().manual_seed(0)),
    ),
    _case(
        "LukeModel",
        {"entity_vocab_size": 20, "entity_emb_size": 16},
        input_ids=ids(2, 7),
        attention_mask=mask(),
        entity_ids=torch.tensor([[3, 4], [5, 6]]),
        entity_attention_mask=torch.ones(2, 2, dtype=torch.int64),
        entity_position_ids=torch.tensor([[[1, 2, -1], [3, -1, -1]]] * 2),
    ),
    _case(
        "PerceiverModel",
        {
            "d_model": 16,
            "d_latents": 16,
            "num_latents": 4,
            "num_blocks": 1,
            "num_self_attends_per_block": 1,
            "num_self_attention_heads": 2,
            "num_cross_attention_heads": 2,
        },
        inputs=noise(2, 6, 16),
    ),
    _case(
        "VideoMAEModel",
        {"num_frames": 2, "tubelet_size": 2, "image_size": 16, "patch_size": 8},
        pixel_values=noise(2, 2, 3, 16, 16),
    ),
    _case(
        "TimesformerModel", {"num_frames": 2, "image_size": 16, "patch_size": 8}, pixel_values=noise(2, 2, 3, 16, 16)
    ),
    _case(
        "VivitModel",
        {"num_frames": 4, "tubelet_size": [2, 8, 8], "image_size": 16},
        pixel_values=noise(2, 4, 3, 16, 16),
    ),
    _case("TrOCRForCausalLM", {}, input_ids=ids(2, 7)),
    _case(
        "MgpstrForSceneTextRecognition",
        {
            "image_size": [16, 32],
            "patch_size": 8,
            "num_character_labels": 5,
            "num_bpe_labels": 7,
            "num_wordpiece_labels": 6,
            "max_token_length": 4,
        },
        pixel_values=noise(2, 3, 16, 32),
    ),
    _case(
        "UdopEncoderModel",
        {"image_size": 32, "patch_size": 8},
        input_ids=ids(2, 7),
        bbox=noise(2, 7, 4).sigmoid(),
        pixel_values=noise(2, 3, 32, 32),
    ),
    _case(
        "SeamlessM4TForTextToText",
        {"speech_encoder_layers": 1, "max_position_embeddings": 64},
        input_ids=ids(2, 7),
        decoder_input_ids=ids(2, 5),
    ),
    _case(
        "Blip2QFormerModel",
        {"encoder_hidden_size": 16},
        query_embeds=noise(2, 4, 32),
        encoder_hidden_states=noise(2, 6, 16),
    ),
    _case("MusicgenForCausalLM", {"num_codebooks": 2}, input_ids=ids(4, 7)),
    _case(
        "BarkSemanticModel", {"input_vocab_size": 61, "output_vocab_size": 61, "block_size": 64}, input_ids=ids(2, 7)
    ),
]
