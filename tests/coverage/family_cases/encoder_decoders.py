"""Encoder-decoders of text and speech."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.coverage.family_cases.case import Built, Case
from tests.coverage.tiny import ids, mask, model, noise


def _text(kind: str, /, length: int = 7, **given: Any) -> Built:
    inputs = {"input_ids": ids(2, length), "attention_mask": mask(2, length), "decoder_input_ids": ids(2, 5)}
    return model(kind, **given), (), inputs


def _speech(kind: str, /, inputs: tuple[str, tuple[int, ...]], **given: Any) -> Built:
    name, shape = inputs
    return model(kind, **given), (), {name: noise(*shape), "decoder_input_ids": ids(2, 5)}


def _case(kind: str, /, length: int = 7, label: str = "", **given: Any) -> Case:
    return Case(kind + label, "encoder-decoders", partial(_text, kind, length, **given))


def _heard(kind: str, /, inputs: tuple[str, tuple[int, ...]], **given: Any) -> Case:
    return Case(kind, "encoder-decoders", partial(_speech, kind, inputs, **given))


CASES = [
    _case("T5ForConditionalGeneration"),
    _case("T5ForConditionalGeneration", label=" gated", feed_forward_proj="gated-gelu"),
    _case("T5Model", label=" without cache", use_cache=False),
    _case("MT5ForConditionalGeneration"),
    _case("UMT5ForConditionalGeneration"),
    _case("LongT5ForConditionalGeneration", local_radius=3, encoder_attention_type="local"),
    _case(
        "LongT5ForConditionalGeneration",
        label=" global",
        local_radius=3,
        global_block_size=4,
        encoder_attention_type="transient-global",
    ),
    _case("BartForConditionalGeneration"),
    _case("MBartForConditionalGeneration"),
    _case("MarianMTModel", decoder_vocab_size=61),
    _case("PegasusForConditionalGeneration"),
    _case("PegasusXForConditionalGeneration", block_size=4, num_global_tokens=2, length=8),
    _case("BigBirdPegasusForConditionalGeneration", attention_type="original_full"),
    _case("BlenderbotForConditionalGeneration"),
    _case("BlenderbotSmallForConditionalGeneration"),
    _case(
        "LEDForConditionalGeneration",
        attention_window=[4, 4],
        max_encoder_position_embeddings=64,
        max_decoder_position_embeddings=64,
        length=8,
    ),
    _case(
        "ProphetNetForConditionalGeneration",
        ngram=2,
        num_buckets=8,
        relative_max_distance=16,
        num_encoder_attention_heads=4,
        num_decoder_attention_heads=4,
    ),
    _case("M2M100ForConditionalGeneration"),
    _case("PLBartForConditionalGeneration"),
    _case("MvpForConditionalGeneration"),
    _case("FSMTForConditionalGeneration", src_vocab_size=61, tgt_vocab_size=61, langs=["en", "de"]),
    _case(
        "NllbMoeForConditionalGeneration",
        num_experts=4,
        encoder_sparse_step=2,
        decoder_sparse_step=2,
    ),
    _case("SwitchTransformersForConditionalGeneration"),
    _heard("WhisperForConditionalGeneration", ("input_features", (2, 8, 32)), num_mel_bins=8, max_source_positions=16),
    _heard(
        "Speech2TextForConditionalGeneration",
        ("input_features", (2, 32, 8)),
        input_feat_per_channel=8,
        conv_channels=16,
        max_source_positions=64,
        num_conv_layers=2,
    ),
    _heard(
        "MoonshineForConditionalGeneration",
        ("input_values", (2, 2000)),
        encoder_num_hidden_layers=1,
        decoder_num_hidden_layers=1,
        encoder_num_attention_heads=4,
        decoder_num_attention_heads=4,
        encoder_num_key_value_heads=4,
        decoder_num_key_value_heads=4,
    ),
    _heard("Pop2PianoForConditionalGeneration", ("inputs_embeds", (2, 7, 32))),
    _heard(
        "SpeechT5ForSpeechToText",
        ("input_values", (2, 2000)),
        apply_spec_augment=False,
        conv_dim=[8, 8],
        conv_stride=[5, 4],
        conv_kernel=[10, 4],
        num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=2,
    ),
]
