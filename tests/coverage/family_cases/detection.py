"""Detection, segmentation and depth heads."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.coverage.family_cases.case import Built, Case
from tests.coverage.tiny import configuration, ids, model, noise, randomized, transformers


def _image(kind: str, /, size: int = 32, **given: Any) -> Built:
    return model(kind, **given), (), {"pixel_values": noise(2, 3, size, size)}


def _case(kind: str, /, label: str = "", size: int = 32, **given: Any) -> Case:
    return Case(kind + label, "detection and segmentation", partial(_image, kind, size, **given))


def _resnet(stages: int = 4) -> Any:
    sizes = [8, 16, 16, 32][:stages]
    names = [f"stage{i + 1}" for i in range(stages)]
    return configuration(
        transformers.ResNetConfig, embedding_size=8, hidden_sizes=sizes, depths=[1] * stages, out_features=names
    )


def _swin() -> Any:
    return configuration(
        transformers.SwinConfig,
        embed_dim=8,
        depths=[1, 1, 1, 1],
        num_heads=[1, 2, 2, 4],
        window_size=2,
        patch_size=4,
        image_size=64,
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )


def _convnext() -> Any:
    return configuration(
        transformers.ConvNextConfig,
        hidden_sizes=[8, 16, 16, 32],
        depths=[1, 1, 1, 1],
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )


def _with(kind: str, make: Any, /, size: int = 64, **given: Any) -> Built:
    return _image(kind, size, backbone_config=make(), **given)


def _on(kind: str, make: Any, /, size: int = 64, label: str = "", **given: Any) -> Case:
    return Case(kind + label, "detection and segmentation", partial(_with, kind, make, size, **given))


def _sam_decoder() -> Built:
    decoder = transformers.models.sam.configuration_sam.SamMaskDecoderConfig
    config = configuration(decoder, hidden_size=32, iou_head_hidden_dim=16, num_attention_heads=4, mlp_dim=32)
    module = randomized(transformers.models.sam.modeling_sam.SamMaskDecoder(config))
    return (
        module,
        (),
        {
            "image_embeddings": noise(1, 32, 4, 4),
            "image_positional_embeddings": noise(1, 32, 4, 4),
            "sparse_prompt_embeddings": noise(1, 1, 2, 32),
            "dense_prompt_embeddings": noise(1, 32, 4, 4),
            "multimask_output": True,
        },
    )


def _owl() -> Built:
    module = model("OwlViTForObjectDetection", projection_dim=32)
    return module, (), {"input_ids": ids(2, 7), "pixel_values": noise(1, 3, 32, 32)}


_DETR = {"use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None}
_DPT = {
    "neck_hidden_sizes": [8, 8, 16, 16],
    "fusion_hidden_size": 16,
    "backbone_out_indices": [0, 1, 2, 3],
    "num_hidden_layers": 4,
}
_RT = {
    "encoder_hidden_dim": 16,
    "encoder_in_channels": [16, 16, 32],
    "feat_strides": [8, 16, 32],
    "encoder_ffn_dim": 32,
    "decoder_in_channels": [16, 16, 16],
    "decoder_ffn_dim": 32,
    "num_denoising": 0,
    "num_feature_levels": 3,
}

CASES = [
    _on("DetrForObjectDetection", _resnet, **_DETR),
    _on("DetrForSegmentation", _resnet, encoder_attention_heads=8, decoder_attention_heads=8, **_DETR),
    _on("ConditionalDetrForObjectDetection", _resnet, **_DETR),
    _on("DabDetrForObjectDetection", _resnet, **_DETR),
    _on("DeformableDetrForObjectDetection", _resnet, **_DETR),
    _on(
        "DeformableDetrForObjectDetection",
        _resnet,
        label=" in two stages",
        two_stage=True,
        with_box_refine=True,
        **_DETR,
    ),
    _on("TableTransformerForObjectDetection", _resnet, **_DETR),
    _case("YolosModel", image_size=[32, 32], num_detection_tokens=5),
    _case("YolosForObjectDetection", image_size=[32, 32], num_detection_tokens=5),
    Case(
        "RTDetrForObjectDetection",
        "detection and segmentation",
        lambda: _image(
            "RTDetrForObjectDetection",
            64,
            backbone_config=configuration(
                transformers.RTDetrResNetConfig,
                embedding_size=8,
                hidden_sizes=[8, 16, 16, 32],
                depths=[1, 1, 1, 1],
                out_features=["stage2", "stage3", "stage4"],
            ),
            **_RT,
        ),
    ),
    Case(
        "RTDetrV2ForObjectDetection",
        "detection and segmentation",
        lambda: _image(
            "RTDetrV2ForObjectDetection",
            64,
            backbone_config=configuration(
                transformers.RTDetrResNetConfig,
                embedding_size=8,
                hidden_sizes=[8, 16, 16, 32],
                depths=[1, 1, 1, 1],
                out_features=["stage2", "stage3", "stage4"],
            ),
            **_RT,
        ),
    ),
    _case(
        "SegformerForSemanticSegmentation",
        size=64,
        hidden_sizes=[8, 16, 16, 32],
        depths=[1, 1, 1, 1],
        decoder_hidden_size=16,
        num_attention_heads=[1, 2, 2, 4],
    ),
    _case(
        "SegformerForImageClassification",
        size=64,
        hidden_sizes=[8, 16, 16, 32],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 2, 2, 4],
    ),
    _on(
        "UperNetForSemanticSegmentation", _convnext, auxiliary_in_channels=16, auxiliary_channels=8, pool_scales=[1, 2]
    ),
    Case(
        "MaskFormerForInstanceSegmentation",
        "detection and segmentation",
        lambda: _with(
            "MaskFormerForInstanceSegmentation",
            _swin,
            fpn_feature_size=32,
            mask_feature_size=16,
            decoder_config=configuration(transformers.DetrConfig),
        ),
    ),
    _on(
        "Mask2FormerForUniversalSegmentation",
        _swin,
        hidden_dim=32,
        feature_size=32,
        mask_feature_size=32,
        dim_feedforward=24,
        encoder_feedforward_dim=24,
        num_queries=5,
    ),
    _case("DPTForDepthEstimation", **_DPT),
    _case("DPTForSemanticSegmentation", auxiliary_loss_weight=0.4, **_DPT),
    _case(
        "GLPNForDepthEstimation",
        size=64,
        hidden_sizes=[8, 16, 16, 32],
        depths=[1, 1, 1, 1],
        decoder_hidden_size=16,
        num_attention_heads=[1, 2, 2, 4],
    ),
    _case("MobileNetV2ForSemanticSegmentation", size=64, depth_multiplier=0.35),
    _case(
        "MobileViTForSemanticSegmentation",
        size=64,
        image_size=64,
        hidden_sizes=[16, 16, 16],
        neck_hidden_sizes=[8, 8, 16, 16, 16, 16, 32],
        patch_size=2,
        aspp_out_channels=16,
    ),
    _case(
        "BeitForSemanticSegmentation",
        num_hidden_layers=4,
        out_indices=[1, 2, 3, 4],
        use_auxiliary_head=True,
        pool_scales=[1, 2],
    ),
    Case("SamMaskDecoder", "detection and segmentation", _sam_decoder),
    Case("OwlViTForObjectDetection", "detection and segmentation", _owl),
    Case(
        "DepthAnythingForDepthEstimation",
        "detection and segmentation",
        lambda: _image(
            "DepthAnythingForDepthEstimation",
            32,
            backbone_config=configuration(
                transformers.Dinov2Config,
                num_hidden_layers=4,
                out_features=["stage1", "stage2", "stage3", "stage4"],
                reshape_hidden_states=False,
                apply_layernorm=True,
            ),
            reassemble_hidden_size=32,
            neck_hidden_sizes=[8, 8, 16, 16],
            fusion_hidden_size=16,
            head_hidden_size=8,
            patch_size=8,
        ),
    ),
    Case(
        "ZoeDepthForDepthEstimation",
        "detection and segmentation",
        lambda: _image(
            "ZoeDepthForDepthEstimation",
            32,
            backbone_config=configuration(
                transformers.BeitConfig,
                num_hidden_layers=4,
                out_features=["stage1", "stage2", "stage3", "stage4"],
                reshape_hidden_states=False,
                use_relative_position_bias=True,
            ),
            neck_hidden_sizes=[8, 8, 16, 16],
            fusion_hidden_size=16,
            bottleneck_features=16,
            num_attractors=[4, 2, 2, 1],
            bin_embedding_dim=16,
            num_relative_features=8,
            bin_configurations=[{"n_bins": 8, "min_depth": 0.001, "max_depth": 10.0, "name": "nyu"}],
        ),
    ),
    Case(
        "VitMatteForImageMatting",
        "detection and segmentation",
        lambda: (
            model(
                "VitMatteForImageMatting",
                backbone_config=configuration(transformers.VitDetConfig, num_channels=4, out_features=["stage2"]),
                hidden_size=32,
                fusion_hidden_sizes=[16, 8, 8],
                convstream_hidden_sizes=[8, 8],
            ),
            (),
            {"pixel_values": noise(2, 4, 32, 32)},
        ),
    ),
    Case(
        "SuperPointForKeypointDetection encoder",
        "detection and segmentation",
        lambda: (
            randomized(
                transformers.models.superpoint.modeling_superpoint.SuperPointEncoder(
                    transformers.SuperPointConfig(encoder_hidden_sizes=[8, 8, 16, 16])
                )
            ),
            (noise(2, 1, 32, 32),),
            {},
        ),
    ),
]
