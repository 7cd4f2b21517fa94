"""Operators without an entry in the table, which torch takes apart into ones that have one."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from cellbridge.converter.capture.tables.table import TABLE

RNG = torch.Generator().manual_seed(0)


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=RNG, dtype=torch.float64)


@pytest.mark.slow
def test_functions_made_of_others(check):
    check(
        lambda x, y: [
            torch.sinc(x), torch.frac(x), torch.deg2rad(x), torch.logaddexp2(x, y),
            torch.dist(x, y), torch.ldexp(x, y), torch.isclose(x, y), torch.special.entr(x.abs()), torch.nanmean(x, 1),
            torch.cross(x[:, :3], y[:, :3], dim=1),
            torch.cumulative_trapezoid(x, dim=1), torch.float_power(x.abs(), 1.5), torch.quantile(x, 0.25, dim=1),
        ],
        normal(3, 4), normal(3, 4),
    )  # fmt: skip

    check(torch.heaviside, normal(3, 4), normal(3, 4), gradients=False)


@pytest.mark.parametrize(
    "padding", ["reflection", *(pytest.param(padding, marks=pytest.mark.slow) for padding in ("zeros", "border"))]
)
def test_grid_sample(check, padding):
    grid = torch.rand((2, 4, 5, 2), generator=RNG, dtype=torch.float64) * 2.2 - 1.1
    check(
        lambda x, grid: [
            F.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=corners)
            for mode in ("bilinear", "nearest", "bicubic")
            for corners in (True, False)
        ],
        normal(2, 3, 5, 6),
        grid,
    )
    at_bounds = torch.tensor([[-1.0, 0.1], [1.0, -0.3], [0.2, 1.0], [1.0, -1.0], [1.5, -0.2]], dtype=torch.float64)
    check(
        lambda x, grid: [
            F.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=True)
            for mode in ("bilinear", "nearest", "bicubic")
        ],
        normal(1, 2, 3, 4),
        at_bounds.reshape(1, 1, 5, 2),
    )


def test_layers_in_the_table_stay_whole(check):
    program = check(lambda x: F.gelu(F.layer_norm(x, (4,))), normal(3, 4))
    assert [node.op for node in program.nodes if node.op != "boundary"] == ["layer_norm", "gelu"]


def test_in_place_operators_become_functional(check):
    assert not [
        target for target in TABLE if target.split(".")[1].endswith("_") and not target.split(".")[1].startswith("_")
    ]
    check(lambda x: x.clone().add_(1).sub_(x[0]).div_(3).neg_().relu_(), normal(3, 4))


@pytest.mark.parametrize("dtype", [None, torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("length", [0, 1, 2, 7, 8])
@pytest.mark.every(12)
def test_windows_and_frequencies_made_of_numbers(check, length, dtype):
    functions = (torch.bartlett_window, torch.blackman_window, torch.hamming_window, torch.hann_window)
    windows = [torch.signal.windows.cosine, torch.signal.windows.kaiser, torch.signal.windows.nuttall]

    def made(x):
        named = [f(length, periodic=p, dtype=dtype) for f in (*functions, torch.kaiser_window) for p in (True, False)]
        named += [torch.kaiser_window(length, periodic=False, beta=beta, dtype=dtype) for beta in (0.0, 5.5)]
        frequencies = [torch.fft.fftfreq(length, 0.3, dtype=dtype), torch.fft.rfftfreq(length, 0.3, dtype=dtype)]
        return [
            x,
            *named,
            *(frequencies if length else []),
            *([] if is_half else [f(length, dtype=dtype) for f in windows]),
        ]

    is_half = dtype in (torch.float16, torch.bfloat16)
    # an angle below 2 pi has an error of 2^-9 in float16, and of 2^-6 in bfloat16
    tolerances = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float64: None}
    check(made, normal(2, 3), tolerance=tolerances.get(dtype, 1e-6))
