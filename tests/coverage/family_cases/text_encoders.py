"""Text encoders."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.coverage.family_cases.case import Built, Case
from tests.coverage.tiny import ids, mask, model


def _text(kind: str, /, length: int = 7, **given: Any) -> Built:
    return model(kind, **given), (), {"input_ids": ids(2, length), "attention_mask": mask(2, length)}


def _unmasked(kind: str, /, length: int = 7, **given: Any) -> Built:
    return model(kind, **given), (), {"input_ids": ids(2, length)}


def _case(kind: str, /, length: int = 7, label: str = "", **given: Any) -> Case:
    return Case(kind + label, "text encoders", partial(_text, kind, length, **given))


CASES = [
    _case("BertModel"),
    _case("BertForMaskedLM"),
    _case("BertForSequenceClassification"),
    _case("BertForTokenClassification"),
    _case("BertForQuestionAnswering"),
    _case("RobertaModel"),
    _case("RobertaForSequenceClassification"),
    _case("RobertaPreLayerNormModel"),
    _case("XLMRobertaModel"),
    _case("XLMRobertaXLModel"),
    _case("CamembertForMaskedLM"),
    _case("DebertaModel", relative_attention=True, pos_att_type=["c2p", "p2c"]),
    _case(
        "DebertaV2Model", relative_attention=True, pos_att_type=["c2p", "p2c"], position_buckets=8, conv_kernel_size=3
    ),
    _case("DebertaV2ForSequenceClassification", relative_attention=True, pos_att_type=["p2c"], share_att_key=True),
    _case("AlbertModel"),
    _case("AlbertForMaskedLM"),
    _case("DistilBertModel"),
    _case("DistilBertForSequenceClassification"),
    _case("ElectraModel"),
    _case("ElectraForPreTraining"),
    _case("MPNetModel"),
    _case("XLNetModel", d_inner=48),
    _case("ModernBertModel", global_attn_every_n_layers=2, local_attention=4),
    _case("ModernBertForMaskedLM"),
    _case("LongformerModel", attention_window=[4, 4], length=8),
    _case("BigBirdModel", attention_type="original_full"),
    _case(
        "BigBirdModel",
        label=" block sparse",
        attention_type="block_sparse",
        block_size=4,
        num_random_blocks=1,
        length=48,
    ),
    _case("FNetModel"),
    _case("FunnelModel", block_sizes=[1, 1], num_decoder_layers=1, d_inner=48, length=8),
    _case("ConvBertModel", conv_kernel_size=3),
    # without a mask of its own: transformers makes one row of it for every token, while landmarks are fewer
    Case(
        "NystromformerModel",
        "text encoders",
        partial(_unmasked, "NystromformerModel", num_landmarks=4, segment_means_seq_len=8, length=8),
    ),
    _case(
        "NystromformerModel",
        label=" with as many landmarks as tokens",
        num_landmarks=8,
        segment_means_seq_len=8,
        length=8,
    ),
    _case("RoFormerModel", embedding_size=32),
    _case("MobileBertModel", true_hidden_size=16, intra_bottleneck_size=16),
    _case("SqueezeBertModel", q_groups=2, k_groups=2, v_groups=2, intermediate_groups=2, output_groups=2),
    _case("RemBertModel", input_embedding_size=16, output_embedding_size=16),
    _case("MegatronBertModel"),
    _case("ErnieModel"),
    _case("XmodModel", languages=["en_XX"], default_language="en_XX"),
    _case("XLMModel"),
    _case("FlaubertModel"),
    _case("IBertModel"),
    _case("YosoModel", use_expectation=True),
    _case("MraModel", length=8, block_per_row=1, approx_mode="full"),
    _case("EsmModel", vocab_size=61, mask_token_id=3, pad_token_id=0, position_embedding_type="absolute"),
    _case("EsmForMaskedLM", vocab_size=61, mask_token_id=3, pad_token_id=0, position_embedding_type="rotary"),
    _case("NomicBertModel"),
    _case("EuroBertModel"),
    _case("RoCBertModel", enable_pronunciation=False, enable_shape=False),
    _case("SplinterModel"),
    _case("DPRQuestionEncoder", projection_dim=0),
    _case(
        "CanineModel",
        local_transformer_stride=16,
        attend_from_chunk_width=16,
        attend_from_chunk_stride=16,
        attend_to_chunk_width=16,
        attend_to_chunk_stride=16,
        downsampling_rate=4,
        upsampling_kernel_size=4,
        num_hash_functions=2,
        num_hash_buckets=64,
        length=16,
    ),
    _case(
        "ReformerModel",
        length=16,
        is_decoder=False,
        attn_layers=["local", "local"],
        attention_head_size=8,
        axial_pos_shape=[4, 4],
        axial_pos_embds_dim=[16, 16],
        local_attn_chunk_length=4,
        feed_forward_size=48,
        hash_seed=0,
    ),
    _case("JinaEmbeddingsV3Model"),
    _case("MarkupLMModel"),
    _case("BertGenerationEncoder"),
]
