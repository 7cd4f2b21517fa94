"""Dense layers, embeddings, dropout and layers that move elements, ported wrongly."""

from __future__ import annotations

import torch.nn as torch_nn

from cellbridge.runtime import nn
from tests.parity.differences.difference_cases import Case, case, zeros

CASES: list[Case] = [
    case(
        torch_nn.Linear(4, 8),
        nn.Dense(4, 8, activation="relu"),
        "Dense: activation=ReLU here, activation=None (Linear has none) there; write activation=None",
        nn.Dense(4, 8),
    ),
    case(
        torch_nn.Linear(4, 8),
        nn.Dense(4, 8, has_bias=False),
        "Dense: has_bias=False here, bias=True there; write has_bias=True",
        nn.Linear(4, 8),
    ),
    case(
        torch_nn.Linear(4, 8),
        nn.Dense(8, 8),
        "Dense: in_channels=8 here, in_features=4 there; write in_channels=4",
        nn.Dense(4, 8),
    ),
    case(
        torch_nn.Linear(4, 8),
        nn.Dense(4, 4),
        "Dense: out_channels=4 here, out_features=8 there; write out_channels=8",
        nn.Dense(4, 8),
    ),
    case(
        torch_nn.Embedding(10, 4),
        nn.Embedding(8, 4),
        "Embedding: vocab_size=8 here, num_embeddings=10 there; write vocab_size=10",
        nn.Embedding(10, 4),
    ),
    case(
        torch_nn.Embedding(10, 4),
        nn.Embedding(10, 8),
        "Embedding: embedding_size=8 here, embedding_dim=4 there; write embedding_size=4",
        nn.Embedding(10, 4),
    ),
    case(
        torch_nn.Embedding(10, 4, padding_idx=0),
        nn.Embedding(10, 4, padding_idx=0),
        "Embedding: padding_idx=0 (row 0 is trained) here, padding_idx=0 (its gradient is 0) there; "
        "write embedding(ids) * (ids != 0).expand_dims(-1)",
        (torch_nn.Embedding(10, 4), nn.Embedding(10, 4)),
    ),
    case(
        torch_nn.Embedding(10, 4, max_norm=2.0),
        nn.Embedding(10, 4),
        "Embedding: max_norm=None (there is no other) here, max_norm=2.0 there; "
        "write nn.EmbeddingLookup(..., max_norm=...)",
        (torch_nn.Embedding(10, 4), nn.Embedding(10, 4)),
    ),
    case(
        torch_nn.Dropout(0.1),
        nn.Dropout(0.1),
        "Dropout: keep_prob=0.1 here, p=0.1 there; write p=0.1",
        nn.Dropout(0.9),
    ),
    case(torch_nn.Dropout(0.1), nn.Dropout(p=0.9), "Dropout: p=0.9 here, p=0.1 there; write p=0.1", nn.Dropout(p=0.1)),
    case(
        torch_nn.Dropout2d(0.1), nn.Dropout2d(0.9), "Dropout2d: p=0.9 here, p=0.1 there; write p=0.1", nn.Dropout2d(0.1)
    ),
    case(
        torch_nn.Flatten(2),
        nn.Flatten(),
        "Flatten: start_dim=1 here, start_dim=2 there; write start_dim=2",
        nn.Flatten(2),
    ),
    case(
        torch_nn.Flatten(1, 2),
        nn.Flatten(),
        "Flatten: end_dim=-1 here, end_dim=2 there; write end_dim=2",
        nn.Flatten(1, 2),
    ),
    case(
        torch_nn.Unflatten(1, (2, 3)),
        nn.Unflatten(2, (2, 3)),
        "Unflatten: axis=2 here, dim=1 there; write axis=1",
        nn.Unflatten(1, (2, 3)),
    ),
    case(
        torch_nn.Unflatten(1, (2, 3)),
        nn.Unflatten(1, (3, 2)),
        "Unflatten: unflattened_size=(3, 2) here, unflattened_size=(2, 3) there; write unflattened_size=(2, 3)",
        nn.Unflatten(1, (2, 3)),
    ),
    case(
        torch_nn.PixelShuffle(2),
        nn.PixelShuffle(3),
        "PixelShuffle: upscale_factor=3 here, upscale_factor=2 there; write upscale_factor=2",
        nn.PixelShuffle(2),
    ),
    case(
        torch_nn.PixelUnshuffle(2),
        nn.PixelUnshuffle(3),
        "PixelUnshuffle: downscale_factor=3 here, downscale_factor=2 there; write downscale_factor=2",
        nn.PixelUnshuffle(2),
    ),
    case(
        torch_nn.ZeroPad2d((1, 1, 2, 2)),
        nn.ZeroPad2d((2, 2, 1, 1)),
        "ZeroPad2d: padding=(2, 2, 1, 1) here, padding=(1, 1, 2, 2) there; write padding=(1, 1, 2, 2)",
        nn.ZeroPad2d((1, 1, 2, 2)),
    ),
    case(
        torch_nn.ReflectionPad1d(2),
        nn.ReflectionPad1d(1),
        "ReflectionPad1d: padding=1 here, padding=2 there; write padding=2",
        nn.ReflectionPad1d(2),
    ),
    case(
        torch_nn.ConstantPad1d(1, 2.0),
        nn.ConstantPad1d(1, 0),
        "ConstantPad1d: value=0 here, value=2.0 there; write value=2.0",
        nn.ConstantPad1d(1, 2.0),
    ),
    case(
        torch_nn.ZeroPad2d((1, 1, 2, 2)),
        nn.Pad(((1, 1), (2, 2), (0, 0), (0, 0))),
        "Pad: paddings=((1, 1), (2, 2), (0, 0), (0, 0)) here, padding=(1, 1, 2, 2) there -> (4,7,5,5) against "
        "(2,3,9,7); write paddings=((0, 0), (0, 0), (2, 2), (1, 1))",
        nn.Pad(((0, 0), (0, 0), (2, 2), (1, 1))),
        zeros(2, 3, 5, 5),
    ),
    case(
        torch_nn.ReflectionPad1d(1),
        nn.Pad(((0, 0), (0, 0), (1, 1)), mode="SYMMETRIC"),
        "Pad: mode='SYMMETRIC' here, ReflectionPad1d there; write mode=\"REFLECT\"",
        nn.Pad(((0, 0), (0, 0), (1, 1)), mode="REFLECT"),
    ),
    case(
        torch_nn.Upsample(size=(4, 4)),
        nn.Upsample(size=(8, 8)),
        "Upsample: size=8 here, size=4 there; write size=4",
        nn.Upsample(size=(4, 4)),
    ),
    case(
        torch_nn.Upsample(scale_factor=2),
        nn.Upsample(scale_factor=3.0),
        "Upsample: scale_factor=3.0 here, scale_factor=2.0 there; write scale_factor=2.0",
        nn.Upsample(scale_factor=2.0),
    ),
    case(
        torch_nn.Upsample(scale_factor=1.5, recompute_scale_factor=True),
        nn.Upsample(scale_factor=1.5),
        "Upsample: recompute_scale_factor=False here, recompute_scale_factor=True there; "
        "write recompute_scale_factor=True",
        nn.Upsample(scale_factor=(1.5, 1.5), recompute_scale_factor=True),
    ),
    case(
        torch_nn.Upsample(scale_factor=1.5),
        nn.Upsample(scale_factor=1.5, mode="bilinear", recompute_scale_factor=True),
        "Upsample: mode='bilinear' here, mode='nearest' there; write mode=\"nearest\"",
        nn.Upsample(scale_factor=1.5, recompute_scale_factor=True),
        zeros(1, 2, 4, 6),
    ),
    case(
        torch_nn.Upsample(4, mode="bilinear"),
        nn.Upsample(4),
        "Upsample: mode='nearest' here, mode='bilinear' there; write mode=\"bilinear\"",
        nn.Upsample(4, mode="bilinear"),
    ),
    case(
        torch_nn.Upsample(4, mode="bilinear", align_corners=False),
        nn.Upsample(4, mode="bilinear", align_corners=True),
        "Upsample: align_corners=True here, align_corners=False there; write align_corners=False",
        nn.Upsample(4, mode="bilinear"),
    ),
]
