"""Speech and audio models."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from tests.coverage.family_cases.case import Built, Case
from tests.coverage.tiny import ids, mask, model, noise

_CONVOLUTIONS = {
    "conv_dim": [16, 16],
    "conv_stride": [5, 4],
    "conv_kernel": [10, 4],
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 2,
    "num_feat_extract_layers": 2,
    "layerdrop": 0.0,
}


def _wave(kind: str, /, shape: tuple[int, ...] = (2, 2000), name: str = "input_values", **given: Any) -> Built:
    return model(kind, **given), (), {name: noise(*shape)}


def _masked(kind: str, /, **given: Any) -> Built:
    attended = torch.ones(2, 2000, dtype=torch.int64)
    attended[1, 1500:] = 0
    return model(kind, **given), (), {"input_values": noise(2, 2000), "attention_mask": attended}


def _case(kind: str, /, label: str = "", **given: Any) -> Case:
    return Case(kind + label, "speech", partial(_wave, kind, **given))


CASES = [
    _case(
        "Wav2Vec2Model",
        label=" stable layer norm",
        apply_spec_augment=False,
        do_stable_layer_norm=True,
        feat_extract_norm="layer",
        **_CONVOLUTIONS,
    ),
    _case("Wav2Vec2Model", apply_spec_augment=False, **_CONVOLUTIONS),
    Case(
        "Wav2Vec2Model padded", "speech", partial(_masked, "Wav2Vec2Model", apply_spec_augment=False, **_CONVOLUTIONS)
    ),
    _case("Wav2Vec2ForCTC", apply_spec_augment=False, **_CONVOLUTIONS),
    _case("Wav2Vec2ForSequenceClassification", apply_spec_augment=False, classifier_proj_size=16, **_CONVOLUTIONS),
    _case(
        "Wav2Vec2ForPreTraining",
        apply_spec_augment=False,
        num_codevectors_per_group=8,
        codevector_dim=16,
        proj_codevector_dim=16,
        **_CONVOLUTIONS,
    ),
    _case(
        "Wav2Vec2ForXVector",
        apply_spec_augment=False,
        tdnn_dim=[16, 16],
        tdnn_kernel=[3, 1],
        tdnn_dilation=[1, 1],
        xvector_output_dim=16,
        **_CONVOLUTIONS,
    ),
    _case("HubertModel", apply_spec_augment=False, **_CONVOLUTIONS),
    _case("WavLMModel", apply_spec_augment=False, num_buckets=16, max_bucket_distance=32, **_CONVOLUTIONS),
    _case("UniSpeechModel", apply_spec_augment=False, **_CONVOLUTIONS),
    _case("UniSpeechSatModel", apply_spec_augment=False, **_CONVOLUTIONS),
    _case("SEWModel", apply_spec_augment=False, squeeze_factor=2, **_CONVOLUTIONS),
    _case("SEWDModel", apply_spec_augment=False, squeeze_factor=2, position_buckets=8, **_CONVOLUTIONS),
    _case("Data2VecAudioModel", apply_spec_augment=False, conv_pos_kernel_size=3, **_CONVOLUTIONS),
    _case(
        "Wav2Vec2ConformerModel",
        apply_spec_augment=False,
        conv_depthwise_kernel_size=3,
        position_embeddings_type="relative",
        max_source_positions=200,
        **_CONVOLUTIONS,
    ),
    _case(
        "Wav2Vec2ConformerModel",
        label=" rotary",
        apply_spec_augment=False,
        conv_depthwise_kernel_size=3,
        position_embeddings_type="rotary",
        **_CONVOLUTIONS,
    ),
    _case(
        "Wav2Vec2BertModel",
        shape=(2, 16, 16),
        name="input_features",
        feature_projection_input_dim=16,
        apply_spec_augment=False,
        conv_depthwise_kernel_size=3,
    ),
    _case("ASTModel", shape=(2, 32, 16), max_length=32, num_mel_bins=16),
    _case("ASTForAudioClassification", shape=(2, 32, 16), max_length=32, num_mel_bins=16),
    _case(
        "EncodecModel",
        shape=(1, 1, 640),
        hidden_size=16,
        num_filters=4,
        codebook_size=16,
        codebook_dim=16,
        upsampling_ratios=[4, 2],
        num_lstm_layers=1,
    ),
    _case(
        "DacModel",
        shape=(1, 1, 640),
        encoder_hidden_size=8,
        downsampling_ratios=[2, 4],
        decoder_hidden_size=16,
        upsampling_ratios=[4, 2],
        n_codebooks=2,
        codebook_size=16,
        codebook_dim=4,
    ),
    _case(
        "MimiModel",
        shape=(1, 1, 1280),
        num_filters=4,
        upsampling_ratios=[4, 2],
        codebook_size=16,
        codebook_dim=16,
        vector_quantization_hidden_dimension=16,
        num_quantizers=4,
        upsample_groups=32,
        frame_rate=1500.0,
    ),
    Case(
        "VitsModel",
        "speech",
        lambda: (
            model(
                "VitsModel",
                flow_size=16,
                spectrogram_bins=16,
                ffn_dim=32,
                hidden_size=16,
                num_attention_heads=2,
                upsample_initial_channel=16,
                upsample_rates=[4, 2],
                upsample_kernel_sizes=[8, 4],
                resblock_kernel_sizes=[3],
                resblock_dilation_sizes=[[1, 3]],
                prior_encoder_num_wavenet_layers=1,
                prior_encoder_num_flows=1,
                duration_predictor_num_flows=1,
                depth_separable_num_layers=1,
                posterior_encoder_num_wavenet_layers=1,
                wavenet_kernel_size=3,
            ),
            (),
            {"input_ids": ids(1, 5)},
        ),
    ),
    _case(
        "SpeechT5HifiGan",
        shape=(8, 16),
        name="spectrogram",
        model_in_dim=16,
        upsample_initial_channel=16,
        upsample_rates=[4, 2],
        upsample_kernel_sizes=[8, 4],
        resblock_kernel_sizes=[3],
        resblock_dilation_sizes=[[1, 3]],
    ),
    Case(
        "SpeechT5ForTextToSpeech encoder",
        "speech",
        lambda: (
            model(
                "SpeechT5ForTextToSpeech",
                speech_decoder_prenet_units=16,
                num_mel_bins=8,
                speech_decoder_postnet_units=16,
                reduction_factor=2,
                conv_dim=[8, 8],
                conv_stride=[5, 4],
                conv_kernel=[10, 4],
                num_conv_pos_embeddings=8,
                num_conv_pos_embedding_groups=2,
            ),
            (),
            {
                "input_ids": ids(2, 6),
                "decoder_input_values": noise(2, 8, 8),
                "speaker_embeddings": noise(2, 512),
                "attention_mask": mask(2, 6),
            },
        ),
    ),
    Case(
        "UnivNetModel",
        "speech",
        lambda: (
            model(
                "UnivNetModel",
                model_in_channels=8,
                model_hidden_channels=4,
                num_mel_bins=8,
                resblock_kernel_sizes=[3],
                resblock_stride_sizes=[4],
                resblock_dilation_sizes=[[1, 3]],
                kernel_predictor_hidden_channels=8,
            ),
            (),
            {"input_features": noise(1, 6, 8), "noise_sequence": noise(1, 6, 8)},
        ),
    ),
    _case(
        "ClapAudioModel",
        shape=(1, 1, 64, 16),
        name="input_features",
        num_mel_bins=16,
        spec_size=64,
        patch_embeds_hidden_size=16,
        hidden_size=32,
        depths=[1, 1],
        num_attention_heads=[2, 4],
        window_size=4,
        num_hidden_layers=2,
        aff_block_r=2,
    ),
    Case(
        "FastSpeech2ConformerModel",
        "speech",
        lambda: (
            model(
                "FastSpeech2ConformerModel",
                num_mel_bins=8,
                encoder_num_attention_heads=2,
                decoder_num_attention_heads=2,
                encoder_linear_units=24,
                decoder_linear_units=24,
                duration_predictor_channels=8,
                energy_predictor_channels=8,
                pitch_predictor_channels=8,
                speech_decoder_postnet_units=8,
            ),
            (),
            {"input_ids": ids(1, 6)},
        ),
    ),
]
