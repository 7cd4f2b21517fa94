"""Convolution against torch over random geometries, against its own adjoints, and cut into pieces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cellbridge.runtime.compiled.compiled import compile
from cellbridge.runtime.errors import ShapeError
from cellbridge.runtime.ir.dims import evaluate, symbol
from cellbridge.runtime.ir.types import FLOAT32, Type
from cellbridge.runtime.ops import convolution
from tests.runtime.building import build
from tests.runtime.ops.cases_convolution import torch_conv, torch_conv_transpose

PLAIN: dict[str, Any] = {"stride": (1, 1), "padding": ((0, 0), (0, 0)), "dilation": (1, 1), "groups": 1}


@st.composite
def geometries(
    draw: st.DrawFn, *, transposed: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
    """x, weight, bias and attributes of a convolution, or of a transposed one."""
    spatial = draw(st.integers(1, 3))
    groups = draw(st.integers(1, 3))
    per_group, out_per_group = draw(st.integers(1, 3)), draw(st.integers(1, 3))

    def each(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(spatial))

    kernel, stride, dilation = each(1, 3), each(1, 3), each(1, 2)
    padding = tuple(zip(each(0, 2), each(0, 2), strict=True))
    attributes: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    if transposed:
        attributes["output_padding"] = tuple(
            draw(st.integers(0, max(s, d) - 1)) for s, d in zip(stride, dilation, strict=True)
        )
        # large enough for something to be left when the padding is cut off
        sizes = tuple(draw(st.integers(1, 3)) + 4 for _ in range(spatial))
        weight_shape = (per_group * groups, out_per_group, *kernel)
    else:
        sizes = tuple(draw(st.integers(span, span + 5)) for span in spans)
        weight_shape = (out_per_group * groups, per_group, *kernel)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    x = rng.standard_normal((draw(st.integers(1, 3)), per_group * groups, *sizes))
    return x, rng.standard_normal(weight_shape), rng.standard_normal(out_per_group * groups), attributes


def autograd(function: Any, g: np.ndarray, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
    leaves = [torch.from_numpy(operand).requires_grad_() for operand in operands]
    return tuple(grad.numpy() for grad in torch.autograd.grad(function(*leaves), leaves, torch.from_numpy(g)))


def assert_same(actual: Any, expected: Any) -> None:
    assert actual.dtype == expected.dtype
    assert actual.shape == tuple(expected.shape)
    tolerance = 1e-11 if actual.dtype == np.float64 else 2e-4
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


@settings(max_examples=60, deadline=None)
@given(geometries(), st.sampled_from([np.float64, np.float32]))
def test_conv_and_its_gradients_are_torch_s(geometry: Any, dtype: Any) -> None:
    x, weight, bias, attributes = geometry
    operands = [operand.astype(dtype) for operand in (x, weight, bias)]
    reference = torch_conv(**attributes)
    y = convolution.conv(*operands, **attributes)
    assert_same(y, reference(*map(torch.from_numpy, operands)).numpy())
    g = np.random.default_rng(0).standard_normal(y.shape).astype(dtype)
    for actual, expected in zip(
        convolution.conv.apply_vjp([g], [y], operands, attributes), autograd(reference, g, *operands), strict=True
    ):
        assert_same(actual, expected)


@settings(max_examples=60, deadline=None)
@given(geometries(transposed=True), st.sampled_from([np.float64, np.float32]))
def test_conv_transpose_and_its_gradients_are_torch_s(geometry: Any, dtype: Any) -> None:
    x, weight, bias, attributes = geometry
    operands = [operand.astype(dtype) for operand in (x, weight, bias)]
    reference = torch_conv_transpose(**attributes)
    y = convolution.conv_transpose(*operands, **attributes)
    assert_same(y, reference(*map(torch.from_numpy, operands)).numpy())
    g = np.random.default_rng(0).standard_normal(y.shape).astype(dtype)
    for actual, expected in zip(
        convolution.conv_transpose.apply_vjp([g], [y], operands, attributes),
        autograd(reference, g, *operands),
        strict=True,
    ):
        assert_same(actual, expected)


@settings(max_examples=40, deadline=None)
@given(geometries())
def test_second_derivatives_are_torch_s(geometry: Any) -> None:
    x, weight, _, attributes = geometry
    rng = np.random.default_rng(1)
    leaves = [torch.from_numpy(operand).requires_grad_() for operand in (x, weight)]
    y = torch_conv(**attributes)(*leaves)
    g = torch.from_numpy(rng.standard_normal(y.shape)).requires_grad_()
    gradients = torch.autograd.grad(y, leaves, g, create_graph=True)
    h = torch.from_numpy(rng.standard_normal(weight.shape))
    expected = torch.autograd.grad(gradients[1], [leaves[0], g], h)

    geometry_of_gradient = {**attributes, "kernel_shape": weight.shape[2:]}
    actual = convolution.conv_weight_gradient.apply_vjp(
        [h.numpy()], [gradients[1].detach().numpy()], [x, g.detach().numpy()], geometry_of_gradient
    )
    for gradient, torch_gradient in zip(actual, expected, strict=True):
        assert_same(gradient, torch_gradient.numpy())


@settings(max_examples=40, deadline=None)
@given(geometries(), st.sampled_from([1, 500, 2000]))
def test_pieces_make_the_whole(geometry: Any, column_bytes: int) -> None:
    x, weight, bias, attributes = geometry

    def results() -> list[np.ndarray]:
        y = convolution.conv(x, weight, bias, **attributes)
        return [y, *convolution.conv.apply_vjp([y], [y], [x, weight, bias], attributes)]

    whole = results()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(convolution, "COLUMN_BYTES", column_bytes)
        pieces = results()
    for whole_result, result_of_pieces in zip(whole, pieces, strict=True):
        np.testing.assert_allclose(whole_result, result_of_pieces, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("layout", ["transposed", "reversed", "strided"])
def test_operands_may_lie_in_memory_in_any_way(layout: str) -> None:
    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal((2, 3, 8, 8)), rng.standard_normal((4, 3, 3, 3))
    arrange = {
        "transposed": lambda a: a.transpose(0, 1, 3, 2),
        "reversed": lambda a: a[..., ::-1, ::-1],
        "strided": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    }[layout]
    views = arrange(x), arrange(weight)
    copies = [view.copy() for view in views]
    np.testing.assert_allclose(convolution.conv(*views, **PLAIN), convolution.conv(*copies, **PLAIN), rtol=1e-12)
    np.testing.assert_array_equal(views[0], copies[0])  # and operands stay as they are
    np.testing.assert_array_equal(views[1], copies[1])


def test_an_empty_batch_gives_an_empty_result() -> None:
    weight = np.ones((4, 3, 3, 3))
    y = convolution.conv(np.ones((0, 3, 8, 8)), weight, **PLAIN)
    assert y.shape == (0, 4, 6, 6)
    to_x, to_weight, _ = convolution.conv.apply_vjp([y], [y], [np.ones((0, 3, 8, 8)), weight, None], PLAIN)
    assert to_x.shape == (0, 3, 8, 8)
    np.testing.assert_array_equal(to_weight, np.zeros_like(weight))


def test_shapes_may_be_symbolic() -> None:
    batch, size = symbol("batch"), symbol("size")
    attributes = {**PLAIN, "stride": (2, 1), "padding": ((1, 2), (0, 1))}
    x, weight = Type(FLOAT32, (batch, 3, size, size)), Type(FLOAT32, (4, 3, 3, 2))
    (inferred,) = convolution.conv.infer_types([x, weight, None], attributes)
    sizes = {"batch": 2, "size": 9}
    actual = convolution.conv(np.ones((2, 3, 9, 9), np.float32), np.ones((4, 3, 3, 2), np.float32), **attributes)
    assert tuple(evaluate(dim, sizes) for dim in inferred.shape) == actual.shape


@pytest.mark.parametrize("channels", [3, 16])
@pytest.mark.parametrize("batch", [0, 2])
def test_a_compiled_weight_gradient_takes_any_sizes(channels: int, batch: int) -> None:
    n, size = symbol("n"), symbol("size")
    attributes = {**PLAIN, "kernel_shape": (3, 3), "stride": (2, 1), "padding": ((1, 2), (2, 0))}
    program = build(
        lambda x, g: convolution.conv_weight_gradient(x, g, **attributes),
        (n, channels, 2 * size, size),
        (n, 4, size + 1, size),
    )
    rng = np.random.default_rng(0)
    for width in (5, 8):
        x = rng.standard_normal((batch, channels, 2 * width, width), np.float32)
        g = rng.standard_normal((batch, 4, width + 1, width), np.float32)
        np.testing.assert_allclose(compile(program)(x, g), program(x, g), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("x", "weight", "bias", "changes", "message"),
    [
        ((1, 3, 8, 8), (4, 2, 3, 3), (4,), {}, "weight is for 2 channels"),
        ((1, 3, 8, 8), (4, 1, 3, 3), (4,), {"groups": 3}, "4 output channels don't divide into 3 groups"),
        ((1, 3, 2, 8), (4, 3, 3, 3), (4,), {}, "a window of 3 doesn't fit into 2"),
        ((1, 3, 8, 8), (4, 3, 3, 3), (3,), {}, r"bias must have the shape \(4,\)"),
        ((1, 3, 8), (4, 3, 3, 3), (4,), {}, "weight has rank 4, x has 3"),
        ((3, 8), (4, 3), (4,), {}, "one to three spatial dimensions"),
        ((1, 3, 8, 8), (4, 3, 3, 3), (4,), {"stride": (1,)}, "entry per spatial dimension"),
        ((1, 3, 8, 8), (4, 3, 3, 3), (4,), {"stride": (0, 1)}, "must be positive"),
    ],
)
def test_operands_that_do_not_fit_are_refused(x: Any, weight: Any, bias: Any, changes: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        convolution.conv(np.ones(x), np.ones(weight), np.ones(bias), **{**PLAIN, **changes})


def test_a_cotangent_of_the_wrong_shape_is_refused() -> None:
    with pytest.raises(ShapeError, match="the cotangent g must have the shape"):
        convolution.conv_weight_gradient(np.ones((1, 3, 8, 8)), np.ones((1, 4, 5, 6)), kernel_shape=(3, 3), **PLAIN)
