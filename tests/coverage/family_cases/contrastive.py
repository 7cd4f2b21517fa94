"""Contrastive models of images and text, and other models of both."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.coverage.family_cases.case import Built, Case
from tests.coverage.tiny import ids, mask, model, noise


def _pair(kind: str, /, size: int = 32, masked: bool = True, **given: Any) -> Built:
    inputs = {"input_ids": ids(2, 7), "pixel_values": noise(2, 3, size, size)}
    if masked:
        inputs["attention_mask"] = mask(2, 7)
    return model(kind, **given), (), inputs


def _case(kind: str, /, label: str = "", **given: Any) -> Case:
    return Case(kind + label, "contrastive image-text", partial(_pair, kind, **given))


def _video(kind: str, /, **given: Any) -> Built:
    inputs = {"input_ids": ids(2, 7), "pixel_values": noise(2, 2, 3, 32, 32), "attention_mask": mask(2, 7)}
    return model(kind, **given), (), inputs


CASES = [
    _case("CLIPModel"),
    _case("SiglipModel", masked=False),
    _case("MetaClip2Model"),
    _case("BlipModel"),
    _case("BlipForConditionalGeneration"),
    _case("BlipForImageTextRetrieval"),
    _case(
        "AlignModel",
        projection_dim=80,
        vision_config={"image_size": 64, "width_coefficient": 0.25, "depth_coefficient": 0.25, "hidden_dim": 32},
        size=64,
    ),
    _case("ChineseCLIPModel"),
    _case(
        "GroupViTModel",
        vision_config={
            "depths": [1, 1, 1],
            "num_group_tokens": [4, 2, 0],
            "num_output_groups": [4, 2, 2],
            "image_size": 32,
            "patch_size": 8,
        },
    ),
    Case(
        "XCLIPModel",
        "contrastive image-text",
        partial(
            _video,
            "XCLIPModel",
            vision_config={
                "num_frames": 2,
                "mit_hidden_size": 32,
                "mit_intermediate_size": 32,
                "mit_num_attention_heads": 4,
                "mit_num_hidden_layers": 1,
            },
            projection_dim=32,
            prompt_num_attention_heads=4,
        ),
    ),
    _case("FlavaModel"),
    _case("AltCLIPModel", text_config={"project_dim": 32}),
    _case("CLIPSegForImageSegmentation", extract_layers=[0, 1], reduce_dim=16, decoder_num_attention_heads=2),
    _case("BridgeTowerModel", hidden_size=64, vision_config={"hidden_size": 128}, text_config={"hidden_size": 64}),
    _case("Owlv2Model"),
    _case("GitForCausalLM"),
    _case("ViltModel"),
    Case(
        "CLIPVisionModel",
        "contrastive image-text",
        lambda: (model("CLIPVisionModel"), (), {"pixel_values": noise(2, 3, 32, 32)}),
    ),
    Case(
        "CLIPTextModel",
        "contrastive image-text",
        lambda: (model("CLIPTextModel"), (), {"input_ids": ids(2, 7), "attention_mask": mask(2, 7)}),
    ),
    Case(
        "SiglipVisionModel",
        "contrastive image-text",
        lambda: (model("SiglipVisionModel"), (), {"pixel_values": noise(2, 3, 32, 32)}),
    ),
    Case(
        "VisualBertModel",
        "contrastive image-text",
        lambda: (
            model("VisualBertModel", visual_embedding_dim=16),
            (),
            {"input_ids": ids(2, 7), "visual_embeds": noise(2, 3, 16)},
        ),
    ),
    Case(
        "LxmertModel",
        "contrastive image-text",
        lambda: (
            model("LxmertModel", l_layers=1, x_layers=1, r_layers=1, visual_feat_dim=16),
            (),
            {"input_ids": ids(2, 7), "visual_feats": noise(2, 3, 16), "visual_pos": noise(2, 3, 4)},
        ),
    ),
]
