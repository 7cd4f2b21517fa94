"""Convolutions and pools ported wrongly."""

from __future__ import annotations

import torch.nn as torch_nn

from cellbridge.runtime import nn
from tests.parity.causes.api_differences.difference_cases import Case, case, zeros

IMAGE = zeros(2, 4, 12, 12)
ODD_IMAGE = zeros(2, 4, 11, 11)

CONVOLUTION = [
    case(
        torch_nn.Conv2d(120, 240, 4, bias=False),
        nn.Conv2d(120, 240, 4),
        "Conv2d: pad_mode='same' in the candidate, padding=0 in the reference -> (2,240,12,12) against "
        '(2,240,9,9); write pad_mode="pad"',
        nn.Conv2d(120, 240, 4, pad_mode="valid"),
        zeros(2, 120, 12, 12),
    ),
    case(  # as many windows, elsewhere
        torch_nn.Conv2d(4, 8, 3, stride=2, padding=1, bias=False),
        nn.Conv2d(4, 8, 3, stride=2),
        "Conv2d: pad_mode='same' in the candidate, padding=1 in the reference -> zeros (0, 1, 0, 1) "
        "against (1, 1, 1, 1); "
        'write pad_mode="pad", padding=1',
        nn.Conv2d(4, 8, 3, stride=2, pad_mode="pad", padding=1),
        IMAGE,
    ),
    case(  # "same" is right where an odd size leaves an even number of zeros
        torch_nn.Conv2d(4, 8, 3, stride=2, bias=False),
        nn.Conv2d(4, 8, 3, stride=2, pad_mode="pad", padding=1),
        "Conv2d: padding=1 in the candidate, padding=0 in the reference -> (2,8,6,6) against (2,8,5,5); "
        "write padding=0",
        (torch_nn.Conv2d(4, 8, 3, stride=2, padding=1, bias=False), nn.Conv2d(4, 8, 3, stride=2)),
        ODD_IMAGE,
    ),
    case(
        torch_nn.Conv2d(4, 8, (3, 5), padding=(1, 2), bias=False),
        nn.Conv2d(4, 8, (3, 5), pad_mode="pad", padding=(1, 1, 1, 1)),
        "Conv2d: padding=1 in the candidate, padding=(1, 2) in the reference -> (2,8,12,10) against "
        "(2,8,12,12); write padding=(1, 1, 2, 2)",
        nn.Conv2d(4, 8, (3, 5), pad_mode="pad", padding=(1, 1, 2, 2)),
        IMAGE,
    ),
    case(
        torch_nn.Conv2d(4, 8, 4, padding="same", bias=False),
        nn.Conv2d(4, 8, 4, pad_mode="pad", padding=(2, 1, 2, 1)),
        "Conv2d: padding=(2, 1, 2, 1) in the candidate, padding='same' in the reference -> zeros (2, 1, "
        "2, 1) against (1, 2, 1, 2); "
        'write pad_mode="same"',
        nn.Conv2d(4, 8, 4),
        IMAGE,
    ),
    case(
        torch_nn.Conv1d(4, 8, 3, bias=False),
        nn.Conv1d(4, 8, 3),
        "Conv1d: pad_mode='same' in the candidate, padding=0 in the reference -> (2,8,9) against (2,8,7); "
        'write pad_mode="pad"',
        nn.Conv1d(4, 8, 3, pad_mode="pad"),
        zeros(2, 4, 9),
    ),
    case(  # not called: its shapes aren't known
        torch_nn.Conv3d(4, 8, 3, padding=2, bias=False),
        nn.Conv3d(4, 8, 3, stride=1),
        "Conv3d: pad_mode='same' in the candidate, padding=2 in the reference; write pad_mode=\"pad\", padding=2",
        nn.Conv3d(4, 8, 3, pad_mode="pad", padding=2),
    ),
    case(
        torch_nn.Conv2d(4, 8, 3, padding=1, padding_mode="reflect", bias=False),
        nn.Conv2d(4, 8, 3, pad_mode="pad", padding=1),
        "Conv2d: pad_mode='pad' (zeros) in the candidate, padding_mode='reflect' in the reference; "
        'write nn.ReflectionPad2d(1) in front, and pad_mode="valid"',
        (torch_nn.Conv2d(4, 8, 3, padding=1, bias=False), nn.Conv2d(4, 8, 3, pad_mode="pad", padding=1)),
        IMAGE,
    ),
    case(
        torch_nn.Conv2d(4, 8, 3),
        nn.Conv2d(4, 8, 3, pad_mode="valid"),
        "Conv2d: has_bias=False in the candidate, bias=True in the reference; write has_bias=True",
        nn.Conv2d(4, 8, 3, pad_mode="valid", has_bias=True),
        IMAGE,
    ),
    case(
        torch_nn.Conv2d(4, 8, 3, bias=False),
        nn.Conv2d(4, 8, 5, pad_mode="pad"),
        "Conv2d: kernel_size=5 in the candidate, kernel_size=3 in the reference -> (2,8,8,8) against "
        "(2,8,10,10); write kernel_size=3",
        nn.Conv2d(4, 8, 3, pad_mode="pad"),
        IMAGE,
    ),
    case(
        torch_nn.Conv2d(4, 8, 3, stride=(2, 1), bias=False),
        nn.Conv2d(4, 8, 3, stride=2, pad_mode="pad"),
        "Conv2d: stride=2 in the candidate, stride=(2, 1) in the reference -> (2,8,5,5) against "
        "(2,8,5,10); write stride=(2, 1)",
        nn.Conv2d(4, 8, 3, stride=(2, 1), pad_mode="pad"),
        IMAGE,
    ),
    case(
        torch_nn.Conv2d(4, 8, 3, dilation=2, bias=False),
        nn.Conv2d(4, 8, 3, pad_mode="pad"),
        "Conv2d: dilation=1 in the candidate, dilation=2 in the reference -> (2,8,10,10) against "
        "(2,8,8,8); write dilation=2",
        nn.Conv2d(4, 8, 3, dilation=2, pad_mode="pad"),
        IMAGE,
    ),
    case(
        torch_nn.Conv2d(4, 8, 3, groups=4, bias=False),
        nn.Conv2d(4, 8, 3, pad_mode="pad"),
        "Conv2d: group=1 in the candidate, groups=4 in the reference; write group=4",
        nn.Conv2d(4, 8, 3, pad_mode="pad", group=4),
        IMAGE,
    ),
    case(
        torch_nn.Conv2d(4, 8, 3, bias=False),
        nn.Conv2d(8, 8, 3, pad_mode="pad"),
        "Conv2d: in_channels=8 in the candidate, in_channels=4 in the reference; write in_channels=4",
        nn.Conv2d(4, 8, 3, pad_mode="pad"),
        IMAGE,
    ),
    case(
        torch_nn.Conv2d(4, 8, 3, bias=False),
        nn.Conv2d(4, 16, 3, pad_mode="pad"),
        "Conv2d: out_channels=16 in the candidate, out_channels=8 in the reference -> (2,16,10,10) "
        "against (2,8,10,10); write out_channels=8",
        nn.Conv2d(4, 8, 3, pad_mode="pad"),
        IMAGE,
    ),
    case(
        torch_nn.ConvTranspose2d(4, 8, 4, stride=2, bias=False),
        nn.Conv2dTranspose(4, 8, 4, stride=2),
        "Conv2dTranspose: pad_mode='same' in the candidate, padding=0 in the reference -> (2,8,24,24) "
        "against (2,8,26,26); "
        'write pad_mode="pad"',
        nn.Conv2dTranspose(4, 8, 4, stride=2, pad_mode="valid"),
        IMAGE,
    ),
    case(
        torch_nn.ConvTranspose2d(4, 8, 3, stride=2, padding=1, output_padding=1, bias=False),
        nn.Conv2dTranspose(4, 8, 3, stride=2, pad_mode="pad", padding=1),
        "Conv2dTranspose: output_padding=0 in the candidate, output_padding=1 in the reference -> "
        "(2,8,23,23) against (2,8,24,24); "
        "write output_padding=1",
        nn.Conv2dTranspose(4, 8, 3, stride=2, pad_mode="pad", padding=1, output_padding=1),
        IMAGE,
    ),
    case(
        torch_nn.ConvTranspose1d(4, 8, 3, stride=2, output_padding=1, bias=False),
        nn.Conv1dTranspose(4, 8, 3, stride=2, pad_mode="pad"),
        "Conv1dTranspose: output_padding=0 in the candidate, output_padding=1 in the reference -> "
        "(2,8,19) against (2,8,20); "
        'write pad_mode="pad", and ops.pad(y, (0, 1)) behind it',
        (
            torch_nn.ConvTranspose1d(4, 8, 3, stride=2, bias=False),
            nn.Conv1dTranspose(4, 8, 3, stride=2, pad_mode="pad"),
        ),
        zeros(2, 4, 9),
    ),
    case(
        torch_nn.ConvTranspose2d(4, 8, 2, stride=3, bias=False),
        nn.Conv2dTranspose(4, 8, 2, stride=3, pad_mode="valid"),
        "Conv2dTranspose: pad_mode='valid' (output_padding=1) in the candidate, output_padding=0 in the "
        "reference -> (2,8,36,36) against "
        '(2,8,35,35); write pad_mode="pad", output_padding=0',
        nn.Conv2dTranspose(4, 8, 2, stride=3, pad_mode="pad"),
        IMAGE,
    ),
]

POOLING = [
    case(
        torch_nn.MaxPool2d(2, stride=2),
        nn.MaxPool2d(3, stride=2),
        "MaxPool2d: kernel_size=3 in the candidate, kernel_size=2 in the reference -> (2,4,5,5) against "
        "(2,4,6,6); write kernel_size=2",
        nn.MaxPool2d(2, stride=2),
        IMAGE,
    ),
    case(
        torch_nn.MaxPool2d(2),
        nn.MaxPool2d(2),
        "MaxPool2d: stride=1 in the candidate, stride=2 in the reference -> (2,4,11,11) against "
        "(2,4,6,6); write stride=2",
        nn.MaxPool2d(2, stride=2),
        IMAGE,
    ),
    case(
        torch_nn.MaxPool2d(3, stride=2, padding=1),
        nn.MaxPool2d(3, stride=2, pad_mode="same"),
        "MaxPool2d: pad_mode='same' in the candidate, padding=1 in the reference -> zeros (0, 1, 0, 1) "
        "against (1, 1, 1, 1); "
        'write pad_mode="pad", padding=1',
        nn.MaxPool2d(3, stride=2, pad_mode="pad", padding=1),
        IMAGE,
    ),
    case(
        torch_nn.AvgPool2d((3, 5), stride=1, padding=(1, 2)),
        nn.AvgPool2d((3, 5), stride=1),
        "AvgPool2d: pad_mode='valid' in the candidate, padding=(1, 2) in the reference -> (2,4,10,8) "
        "against (2,4,12,12); "
        'write pad_mode="pad", padding=(1, 2)',
        nn.AvgPool2d((3, 5), stride=1, pad_mode="pad", padding=(1, 2)),
        IMAGE,
    ),
    case(
        torch_nn.MaxPool2d(2, ceil_mode=True),
        nn.MaxPool2d(2, stride=2),
        "MaxPool2d: ceil_mode=False in the candidate, ceil_mode=True in the reference -> (2,4,5,5) against (2,4,6,6); "
        'write pad_mode="pad", ceil_mode=True',
        nn.MaxPool2d(2, stride=2, pad_mode="pad", ceil_mode=True),
        ODD_IMAGE,
    ),
    case(
        torch_nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False),
        nn.AvgPool2d(3, stride=1, pad_mode="pad", padding=1),
        "AvgPool2d: count_include_pad=True in the candidate, count_include_pad=False in the reference; "
        "write count_include_pad=False",
        nn.AvgPool2d(3, stride=1, pad_mode="same"),
        IMAGE,
    ),
    case(  # the padding of "same" doesn't count
        torch_nn.AvgPool2d(3, stride=1, padding=1),
        nn.AvgPool2d(3, stride=1, pad_mode="same"),
        "AvgPool2d: pad_mode='same' (its padding doesn't count) in the candidate, count_include_pad=True "
        "in the reference; "
        'write pad_mode="pad", padding=1',
        nn.AvgPool2d(3, stride=1, pad_mode="pad", padding=1),
        IMAGE,
    ),
    case(
        torch_nn.AvgPool2d(2, divisor_override=3),
        nn.AvgPool2d(2, stride=2),
        "AvgPool2d: divisor_override=None in the candidate, divisor_override=3 in the reference; write "
        "divisor_override=3",
        nn.AvgPool2d(2, stride=2, divisor_override=3),
        IMAGE,
    ),
    case(
        torch_nn.MaxPool2d(2, dilation=2),
        nn.MaxPool2d(2, stride=2),
        "MaxPool2d: dilation=1 in the candidate, dilation=2 in the reference -> (2,4,6,6) against "
        "(2,4,5,5); write dilation=2",
        nn.MaxPool2d(2, stride=2, pad_mode="pad", dilation=2),
        IMAGE,
    ),
    case(
        torch_nn.MaxPool1d(2, return_indices=True),
        nn.MaxPool1d(2, stride=2),
        "MaxPool1d: return_indices=False in the candidate, return_indices=True in the reference; write "
        "return_indices=True",
        nn.MaxPool1d(2, stride=2, pad_mode="pad", return_indices=True),
        zeros(2, 4, 9),
    ),
    case(
        torch_nn.AdaptiveAvgPool2d((None, 3)),
        nn.AdaptiveAvgPool2d(3),
        "AdaptiveAvgPool2d: output_size=3 in the candidate, output_size=(12, 3) in the reference -> "
        "(2,4,3,3) against (2,4,12,3); "
        "write output_size=(12, 3)",
        nn.AdaptiveAvgPool2d((12, 3)),
        IMAGE,
    ),
]

CASES: list[Case] = [*CONVOLUTION, *POOLING]
