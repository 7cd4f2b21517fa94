"""Resizing against ATen over random sizes and scales, and against its transpose."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cellbridge.converter.onnx_out.export import to_onnx
from cellbridge.runtime.compiled.session import run_model
from cellbridge.runtime.errors import ConversionError, ShapeError
from cellbridge.runtime.ir.dims import symbol
from cellbridge.runtime.ir.types import FLOAT32, Type
from cellbridge.runtime.ops import resize as resizing
from tests.runtime.ops.cases import OpCase
from tests.runtime.ops.cases_pooling import torch_gradient
from tests.runtime.ops.cases_resize import torch_resize
from tests.runtime.ops.checks import one_node_program


@st.composite
def resizings(draw: st.DrawFn) -> tuple[tuple[int, ...], dict[str, Any]]:
    """Old spatial sizes, and attributes."""
    mode = draw(st.sampled_from(resizing.MODES))
    spatial = 2 if mode in ("bilinear", "bicubic") else draw(st.integers(1, 3))
    old = tuple(draw(st.integers(1, 9)) for _ in range(spatial))
    align_corners = not mode.startswith("nearest") and draw(st.booleans())
    if draw(st.booleans()):
        scales = tuple(draw(st.floats(1 / size, 3)) for size in old)
        new = tuple(math.floor(size * scale) for size, scale in zip(old, scales, strict=True))
        # With a scale that contradicts the sizes, ATen's nearest and bicubic are at odds with their own backward,
        # and nearest with itself at other sizes: along axes that keep their size or double it, it ignores the scale.
        torn = mode in ("nearest", "bicubic") and any(n in (o, 2 * o) for n, o in zip(new, old, strict=True))
        if min(new) > 0 and not torn:
            return old, {"size": new, "mode": mode, "align_corners": align_corners, "scales": scales}
    new = tuple(draw(st.integers(1, 20)) for _ in range(spatial))
    return old, {"size": new, "mode": mode, "align_corners": align_corners, "scales": None}


@settings(max_examples=150, deadline=None)
@given(resizings(), st.sampled_from([np.float64, np.float32]), st.integers(0, 99))
def test_resize_and_its_gradient_are_torch_s(case: Any, dtype: Any, seed: int) -> None:
    old, attributes = case
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((1, 2, *old)).astype(dtype)
    tolerance = 1e-11 if dtype == np.float64 else 2e-5
    y = resizing.resize(x, **attributes)
    assert y.dtype == dtype
    np.testing.assert_allclose(
        y, torch_resize(torch.from_numpy(x), **attributes).numpy(), rtol=tolerance, atol=tolerance
    )
    g = rng.standard_normal(y.shape).astype(dtype)
    gradient = resizing.resize.vjp_rule(g, y, x, **attributes)
    expected = torch_gradient(lambda x: torch_resize(x, **attributes), old)(torch.from_numpy(g)).detach().numpy()
    assert gradient.dtype == dtype
    np.testing.assert_allclose(gradient, expected, rtol=20 * tolerance, atol=20 * tolerance)


@settings(max_examples=50, deadline=None)
@given(resizings())
def test_the_gradient_is_the_transpose(case: Any) -> None:
    old, attributes = case
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 1, *old))
    y = resizing.resize(x, **attributes)
    g = rng.standard_normal(y.shape)
    back = resizing.resize_gradient(g, **{**attributes, "size": old})
    np.testing.assert_allclose((y * g).sum(), (x * back).sum(), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_an_infinite_cotangent_reaches_its_sources_alone(mode: str) -> None:
    x, g = torch.zeros(1, 1, 4, 5, requires_grad=True), torch.ones(1, 1, 8, 10)
    g[0, 0, 3, 4] = torch.inf
    (expected,) = torch.autograd.grad(torch.nn.functional.interpolate(x, size=(8, 10), mode=mode), x, g)
    gradient = resizing.resize_gradient(g.numpy(), size=(4, 5), mode=mode)
    np.testing.assert_allclose(gradient, expected.numpy())


def test_sizes_may_be_symbolic() -> None:
    batch, size = symbol("batch"), symbol("size")
    x = Type(FLOAT32, (batch, 3, size, 5))
    attributes = resizing.resize.attributes({"size": (2 * size, 7), "mode": "bilinear"})
    assert resizing.resize.infer_types([x], attributes)[0].shape == (batch, 3, size * 2, 7)


@pytest.mark.parametrize(("old", "scale"), [(180, 0.35), (340, 0.35), (360, 0.65), (7, 1.5), (5, 2.0), (3, 1 / 3)])
def test_the_onnx_scale_gives_the_size_that_torch_gives(old: int, scale: float) -> None:
    new = math.floor(old * scale)
    assert int(resizing._onnx_scale(old, new, scale) * np.float32(old)) == new


def test_an_axis_may_take_its_scale_from_the_sizes() -> None:
    x = np.random.default_rng(0).standard_normal((1, 1, 5, 6))
    attributes: dict[str, Any] = {"size": (7, 9), "mode": "bilinear", "align_corners": False, "scales": (1.5, None)}
    expected = torch_resize(torch.from_numpy(x), **attributes).numpy()
    np.testing.assert_allclose(resizing.resize(x, **attributes), expected, rtol=1e-12)
    assert resizing._onnx_scale(6, 9, None) == 1.5
    with pytest.raises(ConversionError, match="has no ONNX form"):
        resizing._onnx_scale(symbol("size"), 9, None)


@pytest.mark.parametrize(
    ("old", "new", "mode", "scales"),
    [
        ((5,), (10,), "nearest", (2.1,)),
        ((3, 4, 2), (3, 4, 2), "nearest", (1.2, 1.1, 1.0)),
        ((3, 4), (3, 4), "nearest-exact", (1.3, 1.1)),
        ((3, 4), (3, 4), "bicubic", (1.3, 1.1)),
    ],
)
def test_a_scale_counts_where_the_size_is_once_or_twice_the_old_one(old: Any, new: Any, mode: str, scales: Any) -> None:
    """ATen's backward and ONNX Runtime's Resize don't mind it there; nor does ATen's forward of images, nearest."""
    x = np.random.default_rng(0).standard_normal((1, 2, *old), np.float32)
    attributes: dict[str, Any] = {"size": new, "mode": mode, "align_corners": False, "scales": scales}
    expected = torch_resize(torch.from_numpy(x), **attributes).numpy()
    np.testing.assert_allclose(resizing.resize(x, **attributes), expected, rtol=1e-5, atol=1e-6)
    model = to_onnx(one_node_program(OpCase("resize", (x,), attributes), np.float32))
    (result,) = run_model(model, {model.graph.input[0].name: x}).values()
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_a_scale_that_contradicts_the_size_has_no_onnx_form() -> None:
    with pytest.raises(ConversionError, match="resize from 10 to 15 with a scale of 2"):
        resizing._onnx_scale(10, 15, 2.0)


@pytest.mark.parametrize(
    ("shape", "changes", "message"),
    [
        ((1, 1, 4, 4), {"mode": "area"}, "mode 'area' must be one of"),
        ((1, 1, 4, 4, 4), {"size": (8, 8, 8), "mode": "bicubic"}, "needs two spatial dimensions"),
        ((1, 1, 4, 4), {"size": (8,)}, "must have 2 entries"),
        ((1, 1, 4, 4), {"size": (8, 0)}, "must be positive"),
        ((1, 1, 4, 4), {"scales": (2.0,)}, "must have 2 entries"),
        ((1, 1, 4, 4), {"align_corners": True}, "has no align_corners"),
        ((4, 4), {"size": ()}, "one to three spatial dimensions"),
    ],
)
def test_what_does_not_fit_is_refused(shape: Any, changes: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        resizing.resize(np.ones(shape), **{"size": (8, 8), **changes})
