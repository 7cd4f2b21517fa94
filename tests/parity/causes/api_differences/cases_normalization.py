"""Normalization layers ported wrongly."""

from __future__ import annotations

import torch.nn as torch_nn

from cellbridge.runtime import nn
from tests.parity.causes.api_differences.difference_cases import Case, case, zeros

CASES: list[Case] = [
    case(
        torch_nn.BatchNorm2d(4),
        nn.BatchNorm2d(4, momentum=0.1),
        "BatchNorm2d: momentum=0.1 (the old statistic's weight) in the candidate, momentum=0.1 (the new "
        "one's) in the reference; "
        "write momentum=0.9",
        nn.BatchNorm2d(4, momentum=0.9),
    ),
    case(
        torch_nn.BatchNorm3d(4, momentum=0.03),
        nn.BatchNorm3d(4),
        "BatchNorm3d: momentum=0.9 (the old statistic's weight) in the candidate, momentum=0.03 (the new "
        "one's) in the reference; "
        "write momentum=0.97",
        nn.BatchNorm3d(4, momentum=0.97),
    ),
    case(
        torch_nn.BatchNorm1d(4, momentum=None),
        nn.BatchNorm1d(4),
        "BatchNorm1d: momentum=0.9 in the candidate, momentum=None (the mean over all batches) in the reference; "
        "write the same number on both sides: Cells have moving statistics only",
        (torch_nn.BatchNorm1d(4), nn.BatchNorm1d(4)),
    ),
    case(
        torch_nn.BatchNorm2d(4, eps=1e-3),
        nn.BatchNorm2d(4),
        "BatchNorm2d: eps=1e-5 in the candidate, eps=0.001 in the reference; write eps=0.001",
        nn.BatchNorm2d(4, eps=1e-3),
    ),
    case(
        torch_nn.BatchNorm2d(4, track_running_stats=False),
        nn.BatchNorm2d(4, momentum=0.1),
        "BatchNorm2d: use_batch_statistics=None in the candidate, track_running_stats=False in the "
        "reference; write use_batch_statistics=True",
        nn.BatchNorm2d(4, use_batch_statistics=True),
    ),
    case(
        torch_nn.BatchNorm3d(4),
        nn.BatchNorm3d(4, use_batch_statistics=False),
        "BatchNorm3d: use_batch_statistics=False in the candidate, track_running_stats=True in the "
        "reference; write use_batch_statistics=None",
        nn.BatchNorm3d(4),
    ),
    case(
        torch_nn.BatchNorm2d(4),
        nn.BatchNorm2d(8),
        "BatchNorm2d: num_features=8 in the candidate, num_features=4 in the reference; write num_features=4",
        nn.BatchNorm2d(4),
    ),
    case(
        torch_nn.BatchNorm2d(4, affine=False),
        nn.BatchNorm2d(4),
        "BatchNorm2d: gamma.requires_grad=True in the candidate, affine=False in the reference; write affine=False",
        nn.BatchNorm2d(4, affine=False),
    ),
    case(
        torch_nn.LayerNorm(8, elementwise_affine=False),
        nn.LayerNorm((8,), epsilon=1e-5),
        "LayerNorm: gamma.requires_grad=True in the candidate, elementwise_affine=False in the reference; "
        "write gamma.requires_grad = False, beta.requires_grad = False",
        (torch_nn.LayerNorm(8), nn.LayerNorm((8,), epsilon=1e-5)),
    ),
    case(
        torch_nn.LayerNorm(8),
        nn.LayerNorm((8,)),
        "LayerNorm: epsilon=1e-7 in the candidate, eps=1e-5 in the reference; write epsilon=1e-5",
        nn.LayerNorm((8,), epsilon=1e-5),
    ),
    case(
        torch_nn.LayerNorm((4, 8)),
        nn.LayerNorm((4, 8), epsilon=1e-5),
        "LayerNorm: normalized_shape=(4, 8), begin_norm_axis=-1, begin_params_axis=-1 in the candidate, "
        "normalized_shape=(4, 8) "
        "in the reference; write begin_norm_axis=-2, begin_params_axis=-2",
        nn.LayerNorm((4, 8), begin_norm_axis=1, begin_params_axis=-2, epsilon=1e-5),
        zeros(2, 4, 8),
    ),
    case(
        torch_nn.LayerNorm((8,)),
        nn.LayerNorm((4,), epsilon=1e-5),
        "LayerNorm: normalized_shape=(4,) in the candidate, normalized_shape=(8,) in the reference; write "
        "normalized_shape=(8,)",
        nn.LayerNorm([8], epsilon=1e-5),
    ),
    case(
        torch_nn.LayerNorm(8, bias=False),
        nn.LayerNorm((8,), epsilon=1e-5),
        "LayerNorm: beta.requires_grad=True in the candidate, bias=False in the reference; write "
        "beta.requires_grad = False",
        (torch_nn.LayerNorm(8), nn.LayerNorm((8,), epsilon=1e-5)),
    ),
    case(
        torch_nn.GroupNorm(2, 8, eps=1e-6),
        nn.GroupNorm(2, 8),
        "GroupNorm: eps=1e-5 in the candidate, eps=1e-6 in the reference; write eps=1e-6",
        nn.GroupNorm(2, 8, eps=1e-6),
    ),
    case(
        torch_nn.GroupNorm(2, 8),
        nn.GroupNorm(8, 8),
        "GroupNorm: num_groups=8 in the candidate, num_groups=2 in the reference; write num_groups=2",
        nn.GroupNorm(2, 8),
    ),
    case(
        torch_nn.GroupNorm(2, 8),
        nn.GroupNorm(2, 4),
        "GroupNorm: num_channels=4 in the candidate, num_channels=8 in the reference; write num_channels=8",
        nn.GroupNorm(2, 8),
    ),
    Case(
        torch_nn.InstanceNorm2d(4, affine=True, track_running_stats=True),
        nn.InstanceNorm2d(4),
        (
            "InstanceNorm2d: momentum=0.1 (the old statistic's weight) in the candidate, momentum=0.1 "
            "(the new one's) in the reference; "
            "write momentum=0.9",
            "InstanceNorm2d: use of moving statistics=never in the candidate, track_running_stats=True "
            "(they are used in eval "
            "mode) in the reference; write ops.batch_norm with them, for inference",
        ),
        (torch_nn.InstanceNorm2d(4, affine=True), nn.InstanceNorm2d(4)),
    ),
    case(
        torch_nn.InstanceNorm1d(4),
        nn.InstanceNorm1d(8, affine=False),
        "InstanceNorm1d: num_features=8 in the candidate, num_features=4 in the reference; write num_features=4",
        nn.InstanceNorm1d(4, affine=False),
    ),
    case(
        torch_nn.InstanceNorm3d(4),
        nn.InstanceNorm3d(4),
        "InstanceNorm3d: gamma.requires_grad=True in the candidate, affine=False in the reference; write affine=False",
        nn.InstanceNorm3d(4, affine=False),
    ),
]
