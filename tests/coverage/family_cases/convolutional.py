"""Convolutional nets old and new."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.coverage.family_cases.case import Built, Case
from tests.coverage.tiny import model, noise
from tests.coverage.tiny_timm import image_model


def _timm(name: str, /, size: int = 32, **given: Any) -> Case:
    return Case(f"timm {name}", "convolutional nets", partial(image_model, name, size, **given))


def _image(kind: str, /, size: int = 32, **given: Any) -> Built:
    return model(kind, **given), (), {"pixel_values": noise(4, 3, size, size)}


def _case(kind: str, /, size: int = 32, **given: Any) -> Case:
    return Case(kind, "convolutional nets", partial(_image, kind, size, **given))


_FOUR = {"layers": (1, 1, 1, 1)}
_HALO = {"block_size": 2, "halo_size": 1}
_SLIM = {"depths": (1, 1, 1, 1), "dims": (8, 16, 16, 32)}

CASES = [
    _timm("vgg11", mlp_ratio=0.01),
    _timm("vgg11_bn", mlp_ratio=0.01),
    _timm("resnet18"),
    _timm("resnet26d", **_FOUR),
    _timm("resnetv2_50", layers=(1, 1, 1, 1)),
    _timm("resnetrs50", **_FOUR),
    _timm("resnext50_32x4d", **_FOUR),
    _timm("seresnet50", **_FOUR),
    _timm("skresnet18", **_FOUR),
    _timm("ecaresnet26t", **_FOUR),
    _timm("wide_resnet50_2", **_FOUR),
    _timm("resnest14d", **_FOUR),
    _timm("resnetblur50", **_FOUR),
    _timm("resnetaa50", **_FOUR),
    _timm("tresnet_m", size=64, layers=(1, 1, 1, 1)),
    _timm("legacy_seresnet18"),
    _timm("legacy_seresnext26_32x4d"),
    _timm("legacy_xception", size=64),
    _timm("densenet121", block_config=(1, 1, 1, 1), growth_rate=8),
    _timm("inception_v3", size=96),
    _timm("inception_next_atto", size=64),
    _timm("mobilenetv1_100"),
    _timm("mobilenetv2_050"),
    _timm("mobilenetv3_small_050"),
    _timm("mobilenetv3_large_075"),
    _timm("mobilenetv4_conv_small_050"),
    _timm("mobilenetv4_hybrid_medium", size=64),
    _timm("mobilenet_edgetpu_100"),
    _timm("mnasnet_050"),
    _timm("fbnetc_100"),
    _timm("spnasnet_100"),
    _timm("efficientnet_b0"),
    _timm("efficientnet_lite0"),
    _timm("efficientnetv2_rw_t", size=64),
    _timm("tf_efficientnet_b0", size=33),
    _timm("tf_efficientnet_es"),
    _timm("mixnet_s"),
    _timm("tf_mixnet_s", size=33),
    _timm("regnetx_002"),
    _timm("regnety_002"),
    _timm("regnetv_040", size=32),
    _timm("convnext_atto", size=64, **_SLIM),
    _timm("convnextv2_atto", size=64, **_SLIM),
    _timm("convnext_atto_ols", size=64, **_SLIM),
    _timm("nfnet_l0", size=32),
    _timm("nf_regnet_b0"),
    _timm("nf_resnet26"),
    _timm("hrnet_w18_small", size=64),
    _timm("dla34"),
    _timm("dla60_res2net"),
    _timm("dpn48b"),
    _timm("res2net50_26w_4s", **_FOUR),
    _timm("res2next50", **_FOUR),
    _timm("ghostnet_050"),
    _timm("ghostnetv2_100", size=64),
    _timm("ghostnet_100"),
    _timm("repvgg_a0"),
    _timm("repghostnet_050"),
    _timm("ese_vovnet19b_slim"),
    _timm("xception41", size=64),
    _timm("darknet17"),
    _timm("cspresnet50", size=64),
    _timm("cspdarknet53", size=64),
    _timm("selecsls42"),
    _timm("rexnet_100"),
    _timm("hardcorenas_a"),
    _timm("tinynet_e"),
    _timm("lcnet_050"),
    _timm("semnasnet_075"),
    _timm("gernet_s"),
    _timm("botnet26t_256", size=64, img_size=64, width_factor=0.25),
    _timm("halonet26t", size=64, width_factor=0.25, self_attn_kwargs=_HALO),
    _timm("lambda_resnet26rpt_256", size=64, img_size=64, width_factor=0.25),
    _timm("bat_resnext26ts", size=64, width_factor=0.5, attn_kwargs={"block_size": 2}),
    _timm("gcresnet33ts", size=64),
    _timm("eca_halonext26ts", size=64, width_factor=0.25, self_attn_kwargs={**_HALO, "dim_head": 16}),
    _timm("mobileone_s0", size=32),
    _timm("hgnet_tiny", size=64),
    _timm("hgnetv2_b0", size=64),
    _timm("cs3darknet_s", size=64),
    _timm("vovnet39a", size=64),
    _timm("mambaout_femto", size=64, depths=(1, 1, 1, 1), dims=(8, 16, 16, 32)),
    _timm("efficientnet_es_pruned"),
    _case("ResNetModel", embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1]),
    _case("RegNetModel", embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], groups_width=8),
    _case("ConvNextModel", hidden_sizes=[8, 16], depths=[1, 1], num_stages=2),
    _case("ConvNextV2Model", hidden_sizes=[8, 16], depths=[1, 1], num_stages=2),
    _case("BitModel", hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1], embedding_size=8, num_groups=2),
    _case("MobileNetV1Model", depth_multiplier=0.25),
    _case("MobileNetV2Model", depth_multiplier=0.35),
    _case("EfficientNetModel", width_coefficient=0.25, depth_coefficient=0.25, hidden_dim=320),
    _case("HGNetV2ForImageClassification", size=64),
    _case("TextNetModel", size=64),
]
