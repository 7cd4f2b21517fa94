"""Resizing: `interpolate` is torch's; the operator objects and their positions; errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from cellbridge.runtime import Tensor, ops
from tests.runtime.against_torch import assert_as_torch, normal

MODES = {
    "nearest": (1, 2, 3),
    "nearest-exact": (1, 2, 3),
    "area": (1, 2, 3),
    "linear": (1,),
    "bilinear": (2,),
    "trilinear": (3,),
    "bicubic": (2,),
}


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(list(MODES)), st.data())
def test_interpolate_is_torch_s(mode: str, data: st.DataObject) -> None:
    spatial = data.draw(st.sampled_from(MODES[mode]))
    old = tuple(data.draw(st.integers(1, 5)) for _ in range(spatial))
    arguments: dict[str, Any] = {"mode": mode}
    if data.draw(st.booleans()):
        arguments["size"] = tuple(data.draw(st.integers(1, 8)) for _ in range(spatial))
    else:
        arguments["scale_factor"] = data.draw(st.sampled_from([2.0, 3.0]))
    if "linear" in mode or "cubic" in mode:
        arguments["align_corners"] = data.draw(st.sampled_from([None, False, True]))

    assert_as_torch(
        lambda x: ops.interpolate(x, **arguments), lambda x: F.interpolate(x, **arguments), normal(1, 2, *old)
    )


def test_scales_that_are_not_whole_and_recomputed_ones() -> None:
    x = normal(1, 2, 4, 5)
    for recompute in (None, True):
        arguments: dict[str, Any] = {
            "scale_factor": (1.3, 1.7),
            "mode": "bilinear",
            "recompute_scale_factor": recompute,
        }
        assert_as_torch(lambda x: ops.interpolate(x, **arguments), lambda x: F.interpolate(x, **arguments), x)  # noqa: B023
    assert_as_torch(lambda x: ops.upsample(x, 3), lambda x: F.interpolate(x, 3), x)


def test_positions_of_the_operator_objects() -> None:
    row = Tensor(np.array([0.0, 3.0, 6.0, 9.0]).reshape(1, 1, 1, 4))
    for flags, expected in [
        ({}, [0.0, 4.0, 8.0]),  # at 0, 4/3, 8/3
        ({"half_pixel_centers": True}, [0.5, 4.5, 8.5]),  # at 1/6, 3/2, 17/6
        ({"align_corners": True}, [0.0, 4.5, 9.0]),  # at 0, 3/2, 3
    ]:
        resized = ops.ResizeBilinearV2(**flags)(row, (1, 3))
        np.testing.assert_allclose(resized.asnumpy().reshape(-1), expected)
    for flags, expected in [
        ({}, [0.0, 3.0, 6.0]),
        ({"half_pixel_centers": True}, [0.0, 6.0, 9.0]),
        ({"align_corners": True}, [0.0, 6.0, 9.0]),
    ]:
        for nearest in (
            ops.ResizeNearestNeighbor((1, 3), **flags)(row),
            ops.ResizeNearestNeighborV2(**flags)(row, (1, 3)),
        ):
            np.testing.assert_array_equal(nearest.asnumpy().reshape(-1), expected)


@pytest.mark.parametrize("flag", ["half_pixel_centers", "align_corners"])
@pytest.mark.parametrize(("name", "mode"), [("ResizeBilinearV2", "bilinear"), ("ResizeBicubic", "bicubic")])
def test_operator_objects_are_interpolate(flag: str, name: str, mode: str) -> None:
    assert_as_torch(
        lambda x: getattr(ops, name)(**{flag: True})(x, (7, 3)),
        lambda x: F.interpolate(x, (7, 3), mode=mode, align_corners=flag == "align_corners"),
        normal(2, 3, 4, 5),
    )


@pytest.mark.parametrize("flags", [{}, {"align_corners": True}, {"half_pixel_centers": True}])
def test_gradients_of_the_nearest(flags: dict[str, bool]) -> None:
    x = normal(1, 1, 4, 5)
    places = ops.ResizeNearestNeighborV2(**flags)(Tensor(np.arange(20.0).reshape(1, 1, 4, 5)), (3, 7))
    chosen = torch.from_numpy(places.asnumpy().astype(np.int64).reshape(-1))
    assert_as_torch(
        lambda x: ops.ResizeNearestNeighborV2(**flags)(x, (3, 7)),
        lambda x: x.reshape(-1)[chosen].reshape(1, 1, 3, 7),
        x,
    )


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (lambda x: ops.interpolate(x), ValueError, ("size", "scale_factor", "neither")),
        (lambda x: ops.interpolate(x, (2, 2), 2.0), ValueError, ("size", "scale_factor", "both")),
        (lambda x: ops.interpolate(x, (2, 2), mode="foo"), ValueError, ("mode", "'foo'", "bilinear")),
        (lambda x: ops.interpolate(x, 2, mode="linear"), ValueError, ("mode", "'linear'", "4")),
        (lambda x: ops.interpolate(x, 2, align_corners=True), ValueError, ("align_corners", "nearest")),
        (lambda x: ops.interpolate(x, (2, 2, 2)), ValueError, ("2 spatial", "(2, 2, 2)")),
        (lambda x: ops.interpolate(x, scale_factor=(1.0,)), ValueError, ("2 spatial", "(1.0,)")),
        (lambda x: ops.interpolate(x, (2, 2), recompute_scale_factor=True), ValueError, ("recompute_scale_factor",)),
        (lambda x: ops.interpolate(Tensor([[[1]]]), 2), TypeError, ("interpolate", "floating-point", "Int64")),
        (lambda x: ops.ResizeBilinearV2(True, True)(x, (2, 2)), ValueError, ("align_corners", "half_pixel_centers")),
        (lambda x: ops.ResizeBilinearV2()(x[0], (2, 2)), ValueError, ("4 dimensions", "3")),
        (lambda x: ops.ResizeBilinearV2()(x, (2,)), ValueError, ("size", "(2,)")),
        (lambda x: ops.ResizeNearestNeighbor((0, 2))(x), ValueError, ("positive",)),
    ],
)
def test_errors(wrong: Callable[[Tensor], Any], error: type[Exception], words: tuple[str, ...]) -> None:
    with pytest.raises(error) as raised:
        wrong(Tensor(normal(1, 2, 3, 4)))
    assert [word for word in words if word not in str(raised.value)] == []
