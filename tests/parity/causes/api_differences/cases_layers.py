"""Dense layers, embeddings, dropout and layers that move elements, ported wrongly."""

from __future__ import annotations

import torch.nn as torch_nn

from cellbridge.runtime import nn
from tests.parity.causes.api_differences.difference_cases import Case, case, zeros

CASES: list[Case] = [
    case(
        torch_nn.Linear(4, 8),
        nn.Dense(4, 8, activation="relu"),
        "Dense: activation=ReLU in the candidate, activation=None (Linear has none) in the reference; "
        "write activation=None",
        nn.Dense(4, 8),
    ),
    case(
        torch_nn.Linear(4, 8),
        nn.Dense(4, 8, has_bias=False),
        "Dense: has_bias=False in the candidate, bias=True in the reference; write has_bias=True",
        nn.Linear(4, 8),
    ),
    case(
        torch_nn.Linear(4, 8),
        nn.Dense(8, 8),
        "Dense: in_channels=8 in the candidate, in_features=4 in the reference; write in_channels=4",
        nn.Dense(4, 8),
    ),
    case(
        torch_nn.Linear(4, 8),
        nn.Dense(4, 4),
        "Dense: out_channels=4 in the candidate, out_features=8 in the reference; write out_channels=8",
        nn.Dense(4, 8),
    ),
    case(
        torch_nn.Embedding(10, 4),
        nn.Embedding(8, 4),
        "Embedding: vocab_size=8 in the candidate, num_embeddings=10 in the reference; write vocab_size=10",
        nn.Embedding(10, 4),
    ),
    case(
        torch_nn.Embedding(10, 4),
        nn.Embedding(10, 8),
        "Embedding: embedding_size=8 in the candidate, embedding_dim=4 in the reference; write embedding_size=4",
        nn.Embedding(10, 4),
    ),
    case(
        torch_nn.Embedding(10, 4, padding_idx=0),
        nn.Embedding(10, 4, padding_idx=0),
        "Embedding: padding_idx=0 (row 0 is trained) in the candidate, padding_idx=0 (its gradient is 0) "
        "in the reference; "
        "write embedding(ids) * (ids != 0).expand_dims(-1)",
        (torch_nn.Embedding(10, 4), nn.Embedding(10, 4)),
    ),
    case(
        torch_nn.Embedding(10, 4, max_norm=2.0),
        nn.Embedding(10, 4),
        "Embedding: max_norm=None (there is no other) in the candidate, max_norm=2.0 in the reference; "
        "write nn.EmbeddingLookup(..., max_norm=...)",
        (torch_nn.Embedding(10, 4), nn.Embedding(10, 4)),
    ),
    case(
        torch_nn.Dropout(0.1),
        nn.Dropout(0.1),
        "Dropout: keep_prob=0.1 in the candidate, p=0.1 in the reference; write p=0.1",
        nn.Dropout(0.9),
    ),
    case(
        torch_nn.Dropout(0.1),
        nn.Dropout(p=0.9),
        "Dropout: p=0.9 in the candidate, p=0.1 in the reference; write p=0.1",
        nn.Dropout(p=0.1),
    ),
    case(
        torch_nn.Dropout2d(0.1),
        nn.Dropout2d(0.9),
        "Dropout2d: p=0.9 in the candidate, p=0.1 in the reference; write p=0.1",
        nn.Dropout2d(0.1),
    ),
    case(
        torch_nn.Flatten(2),
        nn.Flatten(),
        "Flatten: start_dim=1 in the candidate, start_dim=2 in the reference; write start_dim=2",
        nn.Flatten(2),
    ),
    case(
        torch_nn.Flatten(1, 2),
        nn.Flatten(),
        "Flatten: end_dim=-1 in the candidate, end_dim=2 in the reference; write end_dim=2",
        nn.Flatten(1, 2),
    ),
    case(
        torch_nn.Unflatten(1, (2, 3)),
        nn.Unflatten(2, (2, 3)),
        "Unflatten: axis=2 in the candidate, dim=1 in the reference; write axis=1",
        nn.Unflatten(1, (2, 3)),
    ),
    case(
        torch_nn.Unflatten(1, (2, 3)),
        nn.Unflatten(1, (3, 2)),
        "Unflatten: unflattened_size=(3, 2) in the candidate, unflattened_size=(2, 3) in the reference; "
        "write unflattened_size=(2, 3)",
        nn.Unflatten(1, (2, 3)),
    ),
    case(
        torch_nn.PixelShuffle(2),
        nn.PixelShuffle(3),
        "PixelShuffle: upscale_factor=3 in the candidate, upscale_factor=2 in the reference; write upscale_factor=2",
        nn.PixelShuffle(2),
    ),
    case(
        torch_nn.PixelUnshuffle(2),
        nn.PixelUnshuffle(3),
        "PixelUnshuffle: downscale_factor=3 in the candidate, downscale_factor=2 in the reference; write "
        "downscale_factor=2",
        nn.PixelUnshuffle(2),
    ),
    case(
        torch_nn.ZeroPad2d((1, 1, 2, 2)),
        nn.ZeroPad2d((2, 2, 1, 1)),
        "ZeroPad2d: padding=(2, 2, 1, 1) in the candidate, padding=(1, 1, 2, 2) in the reference; write "
        "padding=(1, 1, 2, 2)",
        nn.ZeroPad2d((1, 1, 2, 2)),
    ),
    case(
        torch_nn.ReflectionPad1d(2),
        nn.ReflectionPad1d(1),
        "ReflectionPad1d: padding=1 in the candidate, padding=2 in the reference; write padding=2",
        nn.ReflectionPad1d(2),
    ),
    case(
        torch_nn.ConstantPad1d(1, 2.0),
        nn.ConstantPad1d(1, 0),
        "ConstantPad1d: value=0 in the candidate, value=2.0 in the reference; write value=2.0",
        nn.ConstantPad1d(1, 2.0),
    ),
    case(
        torch_nn.ZeroPad2d((1, 1, 2, 2)),
        nn.Pad(((1, 1), (2, 2), (0, 0), (0, 0))),
        "Pad: paddings=((1, 1), (2, 2), (0, 0), (0, 0)) in the candidate, padding=(1, 1, 2, 2) in the "
        "reference -> (4,7,5,5) against "
        "(2,3,9,7); write paddings=((0, 0), (0, 0), (2, 2), (1, 1))",
        nn.Pad(((0, 0), (0, 0), (2, 2), (1, 1))),
        zeros(2, 3, 5, 5),
    ),
    case(
        torch_nn.ReflectionPad1d(1),
        nn.Pad(((0, 0), (0, 0), (1, 1)), mode="SYMMETRIC"),
        "Pad: mode='SYMMETRIC' in the candidate, ReflectionPad1d in the reference; write mode=\"REFLECT\"",
        nn.Pad(((0, 0), (0, 0), (1, 1)), mode="REFLECT"),
    ),
    case(
        torch_nn.Upsample(size=(4, 4)),
        nn.Upsample(size=(8, 8)),
        "Upsample: size=8 in the candidate, size=4 in the reference; write size=4",
        nn.Upsample(size=(4, 4)),
    ),
    case(
        torch_nn.Upsample(scale_factor=2),
        nn.Upsample(scale_factor=3.0),
        "Upsample: scale_factor=3.0 in the candidate, scale_factor=2.0 in the reference; write scale_factor=2.0",
        nn.Upsample(scale_factor=2.0),
    ),
    case(
        torch_nn.Upsample(scale_factor=1.5, recompute_scale_factor=True),
        nn.Upsample(scale_factor=1.5),
        "Upsample: recompute_scale_factor=False in the candidate, recompute_scale_factor=True in the reference; "
        "write recompute_scale_factor=True",
        nn.Upsample(scale_factor=(1.5, 1.5), recompute_scale_factor=True),
    ),
    case(
        torch_nn.Upsample(scale_factor=1.5),
        nn.Upsample(scale_factor=1.5, mode="bilinear", recompute_scale_factor=True),
        "Upsample: mode='bilinear' in the candidate, mode='nearest' in the reference; write mode=\"nearest\"",
        nn.Upsample(scale_factor=1.5, recompute_scale_factor=True),
        zeros(1, 2, 4, 6),
    ),
    case(
        torch_nn.Upsample(4, mode="bilinear"),
        nn.Upsample(4),
        "Upsample: mode='nearest' in the candidate, mode='bilinear' in the reference; write mode=\"bilinear\"",
        nn.Upsample(4, mode="bilinear"),
    ),
    case(
        torch_nn.Upsample(4, mode="bilinear", align_corners=False),
        nn.Upsample(4, mode="bilinear", align_corners=True),
        "Upsample: align_corners=True in the candidate, align_corners=False in the reference; write "
        "align_corners=False",
        nn.Upsample(4, mode="bilinear"),
    ),
]
