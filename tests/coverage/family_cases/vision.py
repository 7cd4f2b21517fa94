"""Vision transformers and windowed ones, of both libraries."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.coverage.family_cases.case import Built, Case
from tests.coverage.tiny import model, noise
from tests.coverage.tiny_timm import image_model


def _image(kind: str, /, size: int = 32, **given: Any) -> Built:
    return model(kind, **given), (), {"pixel_values": noise(2, 3, size, size)}


def _case(kind: str, /, label: str = "", size: int = 32, **given: Any) -> Case:
    return Case(kind + label, "vision transformers", partial(_image, kind, size, **given))


def _timm(name: str, /, size: int = 32, **given: Any) -> Case:
    return Case(f"timm {name}", "vision transformers", partial(image_model, name, size, **given))


def _convit() -> Built:
    made, args, kwargs = image_model(
        "convit_tiny", embed_dim=32, depth=2, num_heads=4, img_size=32, patch_size=8, local_up_to_layer=1
    )
    made(*args)  # makes its table of relative positions
    return made, args, kwargs


_SWIN = {"embed_dim": 16, "depths": [1, 1], "num_heads": [2, 4], "window_size": 4, "patch_size": 4}
_STAGES = {"hidden_sizes": [8, 16, 16, 32], "depths": [1, 1, 1, 1]}
_VIT = {"embed_dim": 32, "depth": 2, "num_heads": 4, "patch_size": 8, "img_size": 32}

CASES = [
    _case("ViTModel"),
    _case("ViTForImageClassification"),
    _case("ViTMSNModel"),
    _case("DeiTModel"),
    _case("DeiTForImageClassificationWithTeacher"),
    _case("BeitModel", use_relative_position_bias=True),
    _case("Data2VecVisionModel", use_shared_relative_position_bias=True),
    _case("SwinModel", **_SWIN),
    _case("SwinForImageClassification", **_SWIN),
    _case("Swinv2Model", **_SWIN),
    _case(
        "Swin2SRForImageSuperResolution",
        size=16,
        image_size=16,
        patch_size=1,
        embed_dim=16,
        depths=[1, 1],
        num_heads=[2, 2],
        window_size=4,
    ),
    _case("Dinov2Model"),
    _case("Dinov2WithRegistersModel"),
    _case("DINOv3ViTModel"),
    _case("IJepaModel"),
    _case(
        "CvtModel",
        embed_dim=[8, 16],
        num_heads=[1, 2],
        depth=[1, 2],
        patch_sizes=[7, 3],
        patch_stride=[4, 2],
        patch_padding=[2, 1],
        mlp_ratio=[2.0, 2.0],
        attention_drop_rate=[0.0, 0.0],
        drop_rate=[0.0, 0.0],
        drop_path_rate=[0.0, 0.1],
        qkv_bias=[True, True],
        cls_token=[False, True],
        qkv_projection_method=["dw_bn", "dw_bn"],
        kernel_qkv=[3, 3],
        padding_kv=[1, 1],
        stride_kv=[2, 2],
        padding_q=[1, 1],
        stride_q=[1, 1],
    ),
    _case("PvtModel", size=64, image_size=64, num_attention_heads=[1, 2, 2, 4], **_STAGES),
    _case("PvtV2Model", size=64, image_size=64, num_attention_heads=[1, 2, 2, 4], **_STAGES),
    _case(
        "LevitModel",
        size=64,
        image_size=64,
        patch_size=16,
        hidden_sizes=[16, 16, 32],
        num_attention_heads=[2, 2, 4],
        depths=[1, 1, 1],
        key_dim=[8, 8, 8],
        attention_ratio=[2, 2, 2],
        mlp_ratio=[2, 2, 2],
        down_ops=[["Subsample", 8, 2, 4, 2, 2], ["Subsample", 8, 2, 4, 2, 2]],
    ),
    _case(
        "MobileViTModel",
        size=64,
        image_size=64,
        hidden_sizes=[16, 16, 16],
        neck_hidden_sizes=[8, 8, 16, 16, 16, 16, 32],
        patch_size=2,
    ),
    _case("MobileViTV2Model", size=64, image_size=64, patch_size=2, width_multiplier=0.25),
    _case(
        "HieraModel",
        embed_dim=8,
        depths=[1, 1, 1, 1],
        num_heads=[1, 2, 2, 4],
        size=64,
        image_size=[64, 64],
        patch_size=[7, 7],
        mlp_ratio=2.0,
    ),
    _case("PoolFormerModel", size=64, **_STAGES),
    _case(
        "FocalNetModel",
        embed_dim=16,
        depths=[1, 1],
        focal_levels=[2, 2],
        focal_windows=[3, 3],
        hidden_sizes=[16, 32],
        patch_size=4,
    ),
    _case("SwiftFormerModel", size=64, depths=[1, 1, 1, 1], embed_dims=[8, 16, 16, 32]),
    _case("DonutSwinModel", **_SWIN),
    _case("Aimv2VisionModel"),
    _case("MLCDVisionModel"),
    _timm("vit_tiny_patch16_224", **_VIT),
    _timm("vit_small_patch14_reg4_dinov2", **_VIT),
    _timm("vit_medium_patch16_gap_240", **_VIT),
    _timm("vit_base_patch16_siglip_224", **_VIT),
    _timm("vit_base_patch16_rope_reg1_gap_256", **_VIT),
    _timm("deit_tiny_distilled_patch16_224", **_VIT),
    _timm("deit3_small_patch16_224", **_VIT),
    _timm("beit_base_patch16_224", **_VIT),
    _timm("beitv2_base_patch16_224", **_VIT),
    _timm("eva02_tiny_patch14_224", **_VIT),
    _timm("cait_xxs24_224", **_VIT),
    _timm("xcit_nano_12_p16_224", embed_dim=32, depth=2, num_heads=4, img_size=32),
    _timm("swin_tiny_patch4_window7_224", embed_dim=16, depths=(1, 1), num_heads=(2, 4), window_size=4, img_size=32),
    _timm("swinv2_tiny_window8_256", embed_dim=16, depths=(1, 1), num_heads=(2, 4), window_size=4, img_size=32),
    _timm("swin_s3_tiny_224", embed_dim=16, depths=(1, 1), num_heads=(2, 4), window_size=(4, 4), img_size=32),
    _timm("swinv2_cr_tiny_ns_224", embed_dim=16, depths=(1, 1), num_heads=(2, 4), window_size=4, img_size=32),
    _timm("coatnet_pico_rw_224", size=64, img_size=64, embed_dim=(8, 32, 32, 64), depths=(1, 1, 1, 1), stem_width=8),
    _timm("coatnet_nano_rw_224", size=64, img_size=64, embed_dim=(8, 32, 64, 64), depths=(1, 1, 1, 1), stem_width=8),
    _timm("maxvit_pico_rw_256", size=64, img_size=64, embed_dim=(32, 32, 32, 64), depths=(1, 1, 1, 1), stem_width=8),
    _timm(
        "maxxvit_rmlp_nano_rw_256", size=64, img_size=64, embed_dim=(32, 32, 32, 64), depths=(1, 1, 1, 1), stem_width=8
    ),
    _timm(
        "coat_tiny", embed_dims=(64, 64, 64, 64), serial_depths=(1, 1, 1, 1), parallel_depth=1, num_heads=8, img_size=32
    ),
    Case("timm convit_tiny", "vision transformers", _convit),
    _timm(
        "crossvit_tiny_240",
        size=48,
        img_size=48,
        img_scale=(1.0, 2 / 3),
        embed_dim=(16, 32),
        depth=((1, 1, 0),),
        num_heads=(2, 2),
        mlp_ratio=(2, 2, 1),
    ),
    _timm("edgenext_xx_small", size=64, dims=(8, 16, 16, 32), depths=(2, 2, 2, 2)),
    _timm("efficientformer_l1", size=224, embed_dims=(8, 16, 16, 32), depths=(1, 1, 1, 2)),
    _timm("efficientformerv2_s0", size=64, img_size=64, embed_dims=(8, 16, 16, 32), depths=(2, 2, 2, 2)),
    _timm("efficientvit_b0", size=64, widths=(8, 8, 16, 16, 32), depths=(1, 1, 1, 1, 1), head_dim=8),
    _timm("efficientvit_m0", size=64, img_size=64, embed_dim=(16, 16, 32), depth=(1, 1, 1), num_heads=(4, 4, 4)),
    _timm("fastvit_t8", size=64, layers=(1, 1, 1, 1), embed_dims=(8, 16, 16, 32)),
    _timm("focalnet.FocalNet", embed_dim=16, depths=(1, 1, 1, 1)),
    _timm(
        "gcvit.GlobalContextVit",
        size=64,
        img_size=64,
        embed_dim=16,
        depths=(1, 1, 1, 1),
        num_heads=(2, 2, 2, 2),
        window_size=(2, 2, 2, 2),
    ),
    _timm("hiera_tiny_224", size=64, img_size=(64, 64), embed_dim=8, num_heads=1, stages=(1, 1, 1, 1)),
    _timm("levit_128s", size=224, embed_dim=(16, 32, 32), depth=(1, 1, 1), num_heads=(2, 2, 2), key_dim=8),
    _timm("mobilevit_xxs", size=64),
    _timm("mobilevitv2_050", size=64),
    _timm("mvitv2_tiny", size=64, img_size=64),
    _timm("nest.Nest", size=32, img_size=32, embed_dims=(8, 16, 16), num_heads=(1, 2, 2), depths=(1, 1, 1)),
    _timm("nextvit_small", size=64, depths=(1, 1, 5, 1), stem_chs=(8, 8, 8)),
    _timm(
        "pit_ti_224",
        size=64,
        img_size=64,
        patch_size=8,
        stride=8,
        base_dims=(8, 8, 8),
        depth=(1, 1, 1),
        heads=(1, 2, 2),
    ),
    _timm("metaformer.MetaFormer", size=64, depths=(1, 1, 1, 1), dims=(8, 16, 16, 32)),
    _timm("poolformer_s12", size=64),
    _timm("caformer_s18", size=64),
    _timm("convformer_s18", size=64),
    _timm("pvt_v2_b0", size=64, embed_dims=(8, 16, 16, 32), num_heads=(1, 2, 2, 2), depths=(1, 1, 1, 1)),
    _timm("repvit_m1", size=64, embed_dim=(8, 16, 16, 32), depth=(1, 1, 1, 1)),
    _timm("shvit_s1", size=64),
    _timm(
        "tiny_vit_5m_224",
        size=64,
        embed_dims=(16, 16, 32, 32),
        depths=(1, 1, 1, 1),
        num_heads=(1, 2, 2, 2),
        window_sizes=(4, 4, 4, 2),
    ),
    _timm("tnt_s_legacy_patch16_224", size=32, img_size=32, embed_dim=36, depth=1),
    _timm(
        "twins_pcpvt_small",
        size=64,
        img_size=64,
        embed_dims=(8, 16, 16, 32),
        num_heads=(1, 2, 2, 2),
        depths=(1, 1, 1, 1),
    ),
    _timm(
        "twins_svt_small",
        size=64,
        img_size=64,
        embed_dims=(8, 16, 16, 32),
        num_heads=(1, 2, 2, 2),
        depths=(1, 1, 2, 1),
        wss=(2, 2, 2, 1),
    ),
    _timm("visformer_tiny", size=64, img_size=64, embed_dim=32, depth=(1, 1, 1), num_heads=2, init_channels=8),
    _timm("volo.VOLO", size=64, img_size=64, embed_dims=(16, 32, 32, 32), num_heads=(2, 2, 2, 2), layers=(1, 1, 1, 1)),
    _timm(
        "davit_tiny", size=64, depths=(1, 1, 1, 1), embed_dims=(8, 16, 16, 32), num_heads=(1, 2, 2, 4), window_size=2
    ),
    _timm("mlp_mixer.MlpMixer", size=32, img_size=32, patch_size=8, num_blocks=2, embed_dim=32),
    _timm("resmlp_12_224", size=32, img_size=32),
    _timm("gmlp_ti16_224", size=32, img_size=32),
    _timm("samvit_base_patch16", **_VIT),
    _timm("fastvit_s12", size=64, layers=(1, 1, 1, 1), embed_dims=(8, 16, 16, 32)),
    _timm("naflexvit_base_patch16_gap", embed_dim=32, depth=2, num_heads=4, patch_size=8),
    _timm("starnet_s1", size=64, base_dim=8, depths=(1, 1, 1, 1)),
]
