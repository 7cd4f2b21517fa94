"""Images sampled between their pixels: grids against torch, crops and regions against interpolation in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cellbridge.runtime import Tensor, ops
from tests.runtime.functional.judging import require_agreement

MODES = st.sampled_from(["bilinear", "nearest"])
OUTSIDE = st.sampled_from(["zeros", "border", "reflection"])


@settings(deadline=None, max_examples=40)
@given(MODES, OUTSIDE, st.booleans(), st.integers(2, 3), st.integers(0, 999))
def test_grids_are_sampled_as_torch_does(mode: str, outside: str, align: bool, axes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((2, 3, *(rng.integers(1, 5, axes))))
    grid = rng.uniform(-1.7, 1.7, (2, *(rng.integers(1, 4, axes)), axes))

    def torch_sample(a: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.grid_sample(a, g, mode=mode, padding_mode=outside, align_corners=align)

    require_agreement(lambda a, g: ops.grid_sample(a, g, mode, outside, align), torch_sample, x, grid)


@pytest.mark.parametrize("outside", ["zeros", "border"])
def test_points_far_away_are_outside(outside: str) -> None:
    x = np.random.default_rng(0).standard_normal((1, 2, 4, 5, 6))
    grid = np.array([[np.inf, 0.3, 0.1], [0.2, np.nan, 0.5], [-1e30, 0.0, -np.inf]]).reshape(1, 3, 1, 1, 3)
    expected = torch.nn.functional.grid_sample(torch.tensor(x), torch.tensor(grid), "bilinear", outside, True)
    actual = ops.grid_sample(Tensor(x), Tensor(grid), "bilinear", outside, True)
    np.testing.assert_allclose(actual.asnumpy(), expected, rtol=1e-12)


@settings(deadline=None, max_examples=20)
@given(st.booleans(), st.integers(2, 3), st.integers(0, 999))
def test_affine_grids_are_torch_s(align: bool, axes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal((2, axes, axes + 1))
    size = (2, 3, *(int(n) for n in rng.integers(1, 5, axes)))
    require_agreement(
        lambda t: ops.affine_grid(t, size, align),
        lambda t: torch.nn.functional.affine_grid(t, list(size), align_corners=align),
        theta,
    )


def plane(height: int, width: int) -> np.ndarray[Any, Any]:
    """An image that rises evenly both ways: 10 a row, 1 a column; between pixels, interpolation is exact."""
    return 10.0 * np.arange(height)[:, None] + np.arange(width)


def test_crops_of_a_plane() -> None:
    image = Tensor(plane(5, 9)[None, :, :, None])
    boxes = Tensor(np.array([[0.0, 0.25, 1.0, 0.75], [0.5, 0.5, 0.0, 0.5]]))
    crops = ops.crop_and_resize(image, boxes, Tensor([0, 0]), (3, 2)).asnumpy()[..., 0]
    np.testing.assert_allclose(crops[0], [[2, 6], [22, 26], [42, 46]])
    np.testing.assert_allclose(crops[1], [[24, 24], [14, 14], [4, 4]])  # upside down
    outside = ops.crop_and_resize(image, Tensor(np.array([[-1.0, 0, 1, 1]])), Tensor([0]), (2, 1), "bilinear", 7.0)
    assert outside.asnumpy().reshape(-1).tolist() == [7, 44]
    centre = ops.crop_and_resize(image, Tensor(np.array([[0.0, 0, 1, 1]])), Tensor([0]), (1, 1), "nearest")
    assert centre.asnumpy().reshape(-1).tolist() == [24]


@pytest.mark.parametrize("end", [0, 1])
def test_regions_of_a_plane(end: int) -> None:
    features = Tensor(np.broadcast_to(plane(9, 9), (1, 2, 9, 9)).copy())
    pooled = ops.ROIAlign(2, 1, 0.5, 3, end)(features, Tensor(np.array([[0.0, 2, 4, 9, 11]])))
    left, top, width, height = 1.0, 2.0, (7 + end) / 2, (7 + end) / 2
    expected = [10 * (top + height * share) + left + width / 2 for share in (0.25, 0.75)]
    np.testing.assert_allclose(pooled.asnumpy()[0, :, :, 0], [expected, expected])


def test_gradients_of_regions_by_differences() -> None:
    rng = np.random.default_rng(0)
    x, direction = rng.standard_normal((2, 1, 2, 4, 4))
    rois = Tensor(np.array([[0.0, 0.3, 0.2, 2.6, 3.4]]))
    boxes = Tensor(np.array([[0.1, 0.2, 0.9, 0.7]]))
    for f in (
        lambda a: ops.ROIAlign(2, 2, 1.0)(a, rois),
        lambda a: ops.crop_and_resize(a.transpose(0, 2, 3, 1), boxes, Tensor([0]), (2, 3)),
    ):
        slope = (f(Tensor(x + 1e-6 * direction)) - f(Tensor(x - 1e-6 * direction))).sum().item() / 2e-6
        gradient = ops.grad(lambda a, f=f: f(a).sum())(Tensor(x)).asnumpy()
        np.testing.assert_allclose((gradient * direction).sum(), slope, rtol=1e-7)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: ops.grid_sample(x, Tensor(np.zeros((2, 1, 1, 2)))),
        lambda x: ops.grid_sample(x, Tensor(np.zeros((1, 1, 1, 2))), "cubic"),
        lambda x: ops.affine_grid(Tensor(np.zeros((1, 2, 2))), (1, 1, 2, 2)),
        lambda x: ops.crop_and_resize(x, Tensor(np.zeros((1, 3))), Tensor([0]), (1, 1)),
        lambda x: ops.ROIAlign(1, 1, 1.0)(x, Tensor(np.zeros((1, 4)))),
    ],
)
def test_errors(call: Any) -> None:
    with pytest.raises(ValueError, match="For '"):
        call(Tensor(np.zeros((1, 1, 3, 3))))
