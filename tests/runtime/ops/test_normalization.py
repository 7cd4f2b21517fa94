"""Normalizations: any shape against torch, rounding in float32 against torch's own, and what is special about each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from cellbridge.runtime.errors import ShapeError
from cellbridge.runtime.ir.program import Program
from cellbridge.runtime.ir.types import CellCall, Type
from cellbridge.runtime.ops import batch_normalization, group_normalization, normalization
from cellbridge.runtime.ops.registry import Op
from cellbridge.runtime.programs.gradient_program import differentiate
from cellbridge.runtime.programs.interpreter import execute
from cellbridge.runtime.tracing import Builder
from cellbridge.runtime.tree import TENSOR, Structure

Array = np.ndarray[Any, Any]
Torch = Callable[..., Any]

MAX_ERROR_RATIO = 3.0
"""How much larger than torch's the rounding error in float32 may be (root mean square, both against float64)."""


def gradients(op: Op, g: Any, inputs: tuple[Any, ...], **attributes: Any) -> tuple[Any, ...]:
    """Cotangents of the inputs from that of the (first) output."""
    assert op.vjp_rule is not None
    y = op(*inputs, **attributes)
    result = op.vjp_rule((g, None, None) if isinstance(y, tuple) else g, y, *inputs, **attributes)
    return result if isinstance(result, tuple) else (result,)


def torch_gradients(function: Torch, g: Array, inputs: tuple[Any, ...]) -> tuple[Array, list[Array]]:
    tensors = [torch.tensor(x, requires_grad=True) for x in inputs]
    y = function(*tensors)
    return y.detach().numpy(), [t.numpy() for t in torch.autograd.grad(y, tensors, torch.tensor(g))]


def root_mean_square(x: Array) -> float:
    return float(np.sqrt(np.mean(np.square(x.astype(np.float64)))))


def assert_as_exact_as_torch(op: Op, function: Torch, inputs: tuple[Array, ...], **attributes: Any) -> None:
    """Output and gradients in float32, each judged by the error of torch's own against float64."""
    g = np.random.default_rng(5).standard_normal(inputs[0].shape).astype(np.float32)
    torch_y, from_torch = torch_gradients(function, g, inputs)
    truth_y, truth = torch_gradients(function, g.astype(np.float64), tuple(x.astype(np.float64) for x in inputs))
    y = op(*inputs, **attributes)
    actual = [y[0] if isinstance(y, tuple) else y, *gradients(op, g, inputs, **attributes)]
    for which, (a, b, exact) in enumerate(zip(actual, [torch_y, *from_torch], [truth_y, *truth], strict=True)):
        floor = np.finfo(np.float32).eps * root_mean_square(exact) / 4
        error, allowed = root_mean_square(a - exact), max(root_mean_square(b - exact), floor) * MAX_ERROR_RATIO
        assert error <= allowed, f"tensor {which}: error {error:.3g}, torch's {root_mean_square(b - exact):.3g}"


def norm_inputs(shape: tuple[int, ...], channels: int, offset: float) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(3)
    arrays = rng.standard_normal(shape) * 1.5 + offset, rng.standard_normal(channels), rng.standard_normal(channels)
    return tuple(a.astype(np.float32) for a in arrays)  # type: ignore[return-value]


OFFSETS = pytest.mark.parametrize("offset", [0.0, 30.0])


@OFFSETS
@pytest.mark.parametrize("shape", [(64, 384), (4, 16, 1000)])
def test_layer_norm_rounds_like_torch(shape: tuple[int, ...], offset: float) -> None:
    inputs = norm_inputs(shape, shape[-1], offset)
    assert_as_exact_as_torch(
        normalization.layer_norm, lambda x, w, b: F.layer_norm(x, w.shape, w, b), inputs, axes_count=1, eps=1e-5
    )


@OFFSETS
def test_rms_norm_rounds_like_torch(offset: float) -> None:
    inputs = norm_inputs((64, 512), 512, offset)[:2]
    assert_as_exact_as_torch(
        normalization.rms_norm, lambda x, w: F.rms_norm(x, w.shape, w, 1e-6), inputs, axes_count=1, eps=1e-6
    )


@OFFSETS
def test_group_norm_rounds_like_torch(offset: float) -> None:
    inputs = norm_inputs((2, 32, 28, 28), 32, offset)
    assert_as_exact_as_torch(
        group_normalization.group_norm, lambda x, w, b: F.group_norm(x, 8, w, b), inputs, groups=8, eps=1e-5
    )


@OFFSETS
@pytest.mark.parametrize("shape", [(4, 16, 28, 28), (512, 8)])
def test_batch_norm_train_rounds_like_torch(shape: tuple[int, ...], offset: float) -> None:
    inputs = norm_inputs(shape, shape[1], offset)
    assert_as_exact_as_torch(
        batch_normalization.batch_norm_train,
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        inputs,
        eps=1e-5,
    )


@settings(deadline=None)  # what is tested is not how fast
@given(
    shape=st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple),
    data=st.data(),
    eps=st.sampled_from([1e-5, 1e-2, 1.0]),
    scale=st.sampled_from([1e-2, 1.0, 50.0]),
)
def test_layer_norm_of_any_shape(shape: tuple[int, ...], data: st.DataObject, eps: float, scale: float) -> None:
    count = data.draw(st.integers(1, len(shape)))
    assume(np.prod(shape[-count:]) > 1)  # of one element, see below
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    x, g = rng.standard_normal(shape) * scale, rng.standard_normal(shape)
    weight, bias = rng.standard_normal(shape[-count:]), rng.standard_normal(shape[-count:])
    expected, expected_gradients = torch_gradients(
        lambda x, w, b: F.layer_norm(x, shape[-count:], w, b, eps), g, (x, weight, bias)
    )
    np.testing.assert_allclose(
        normalization.layer_norm(x, weight, bias, axes_count=count, eps=eps), expected, atol=1e-9
    )
    actual_gradients = gradients(normalization.layer_norm, g, (x, weight, bias), axes_count=count, eps=eps)
    for gradient, expected_gradient in zip(actual_gradients, expected_gradients, strict=True):
        np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-7, atol=1e-9)


@settings(deadline=None)  # what is tested is not how fast
@given(
    batch=st.integers(1, 3),
    groups=st.integers(1, 3),
    per_group=st.integers(1, 3),
    spatial=st.lists(st.integers(1, 4), max_size=3).map(tuple),
    seed=st.integers(0, 99),
)
def test_group_norm_of_any_shape(batch: int, groups: int, per_group: int, spatial: tuple[int, ...], seed: int) -> None:
    rng = np.random.default_rng(seed)
    channels = groups * per_group
    x, g = rng.standard_normal((batch, channels, *spatial)), rng.standard_normal((batch, channels, *spatial))
    weight, bias = rng.standard_normal(channels), rng.standard_normal(channels)
    # F.group_norm refuses one value per group in training; torch.group_norm computes it
    expected, expected_gradients = torch_gradients(
        lambda x, w, b: torch.group_norm(x, groups, w, b, 1e-3), g, (x, weight, bias)
    )
    np.testing.assert_allclose(
        group_normalization.group_norm(x, weight, bias, groups=groups, eps=1e-3), expected, atol=1e-10
    )
    actual_gradients = gradients(group_normalization.group_norm, g, (x, weight, bias), groups=groups, eps=1e-3)
    for gradient, expected_gradient in zip(actual_gradients, expected_gradients, strict=True):
        np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-8, atol=1e-9)


def test_gradient_of_a_constant_function_is_exactly_zero() -> None:
    """A layer norm over one element is always its bias; torch returns a rounding error here."""
    x, weight, bias = np.array([[3.7], [-1.1]]), np.array([2.0]), np.array([0.5])
    gx, g_weight, g_bias = gradients(
        normalization.layer_norm, np.ones((2, 1)), (x, weight, bias), axes_count=1, eps=1e-5
    )
    assert not gx.any()
    assert not g_weight.any()
    assert g_bias == 2


@pytest.mark.parametrize("output_indices", [(0,), (1,), (2,), (1, 2), (0, 1, 2)])
def test_batch_norm_train_takes_cotangents_of_any_output(output_indices: tuple[int, ...]) -> None:
    rng = np.random.default_rng(8)
    x, weight, bias = rng.standard_normal((3, 4, 2, 2)), rng.standard_normal(4), rng.standard_normal(4)
    ys = batch_normalization.batch_norm_train(x, weight, bias, eps=1e-5)
    gs = tuple(rng.standard_normal(y.shape) if i in output_indices else None for i, y in enumerate(ys))
    assert batch_normalization.batch_norm_train.vjp_rule is not None
    actual_gradients = batch_normalization.batch_norm_train.vjp_rule(gs, ys, x, weight, bias, eps=1e-5)
    tensors = [torch.tensor(a, requires_grad=True) for a in (x, weight, bias)]
    outputs = (
        F.batch_norm(tensors[0], None, None, tensors[1], tensors[2], training=True),
        tensors[0].mean((0, 2, 3)),
        tensors[0].var((0, 2, 3), correction=0),
    )
    expected = torch.autograd.grad(
        [outputs[i] for i in output_indices], tensors, [torch.tensor(gs[i]) for i in output_indices], allow_unused=True
    )
    for gradient, expected_gradient in zip(actual_gradients, expected, strict=True):
        assert (gradient is None) == (expected_gradient is None)
        if expected_gradient is not None:
            np.testing.assert_allclose(gradient, expected_gradient.numpy(), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("op", [normalization.layer_norm, batch_normalization.batch_norm_train], ids=lambda op: op.name)
def test_second_derivatives_agree_with_torch(op: Op) -> None:
    rng = np.random.default_rng(6)
    x, weight, bias, g, direction = (rng.standard_normal(shape) for shape in ((4, 3), 3, 3, (4, 3), (4, 3)))
    attributes = {"eps": 1e-3, **({"axes_count": 1} if op is normalization.layer_norm else {})}
    builder = Builder()
    operands = tuple(
        builder.new_value(name, Type(a.dtype, a.shape)) for name, a in zip("xwb", (x, weight, bias), strict=True)
    )
    y = op(*operands, **attributes)
    program = Program(
        inputs=tuple(o.value for o in operands),
        outputs=((y[0] if isinstance(y, tuple) else y).value,),
        nodes=tuple(builder.nodes),
        parameters={},
        buffers={},
        constants=tuple(builder.constants),
        calls=(CellCall("", "Case"),),
        arguments=Structure("tuple", (Structure("tuple", (TENSOR,) * 3), Structure("dict"))),
        result=Structure("tuple", (TENSOR,)),
    )
    once = differentiate(program)
    g_of_x = once.input_gradients[0]
    assert g_of_x is not None
    twice = differentiate(once.program.replace(outputs=(g_of_x,)))
    values = [value for value in twice.input_gradients if value is not None]
    second_gradients = execute(twice.program, [x, weight, bias, g, direction], wanted=values)

    tensors = [torch.tensor(a, requires_grad=True) for a in (x, weight, bias, g)]
    axis = 1 if op is normalization.layer_norm else 0
    centered = tensors[0] - tensors[0].mean(axis, keepdim=True)
    expected = centered * (centered.square().mean(axis, keepdim=True) + 1e-3).rsqrt() * tensors[1] + tensors[2]
    (first,) = torch.autograd.grad(expected, tensors[0], tensors[3], create_graph=True)
    expected_gradients = [
        t for t in torch.autograd.grad(first, tensors, torch.tensor(direction), allow_unused=True) if t is not None
    ]
    for gradient, expected_gradient in zip(second_gradients, expected_gradients, strict=True):
        np.testing.assert_allclose(gradient, expected_gradient.numpy(), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    ("op", "attributes"),
    [(normalization.layer_norm, {"axes_count": 1, "eps": 1e-5}), (batch_normalization.batch_norm_train, {"eps": 1e-5})],
    ids=lambda value: getattr(value, "name", ""),
)
def test_half_precision_gradients_are_rounded_once(op: Op, attributes: dict[str, Any]) -> None:
    inputs = tuple(a.astype(np.float16) for a in norm_inputs((64, 32), 32, 30.0))
    g = np.random.default_rng(0).standard_normal((64, 32)).astype(np.float16)
    wide = gradients(op, g.astype(np.float32), tuple(a.astype(np.float32) for a in inputs), **attributes)
    for gradient, exact in zip(gradients(op, g, inputs, **attributes), wide, strict=True):
        np.testing.assert_array_equal(gradient, exact.astype(np.float16), strict=True)


def test_operands_that_do_not_fit_are_explained() -> None:
    x = np.zeros((2, 6, 3))
    with pytest.raises(ShapeError, match="6 channels don't divide into 4 groups"):
        group_normalization.group_norm(x, groups=4, eps=1e-5)
    with pytest.raises(ShapeError, match=r"needed shape \(3,\).*float64\[6\]"):
        normalization.layer_norm(x, np.zeros(6), axes_count=1, eps=1e-5)
    with pytest.raises(ShapeError, match="one dtype"):
        normalization.rms_norm(x, np.zeros(3, np.float32), axes_count=1, eps=1e-5)
    with pytest.raises(ShapeError, match="floating-point"):
        normalization.layer_norm(np.zeros((2, 3), np.int64), axes_count=1, eps=1e-5)
