"""Properties of shaping, padding and creation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch.nn import functional

from cellbridge.runtime.errors import ShapeError
from cellbridge.runtime.ir.types import BFLOAT16
from cellbridge.runtime.ops import creation, shaping, slicing

Array = np.ndarray[Any, Any]
shapes = hnp.array_shapes(min_dims=1, max_dims=4, max_side=5)


def numbered(shape: tuple[int, ...]) -> Array:
    return np.arange(float(np.prod(shape))).reshape(shape)


def gradient(op: Any, g: Array, y: Array, *inputs: Array, **attributes: Any) -> Any:
    return op.vjp_rule(g, y, *inputs, **op.attributes(attributes))


@settings(deadline=None)
@given(shapes, st.data())
def test_slice_and_its_gradient(shape: tuple[int, ...], data: st.DataObject) -> None:
    x = numbered(shape)
    starts = tuple(data.draw(st.integers(0, size)) for size in shape)
    stops = tuple(data.draw(st.integers(start, size)) for start, size in zip(starts, shape, strict=True))
    steps = tuple(data.draw(st.integers(1, 4)) for _ in shape)
    index = tuple(map(slice, starts, stops, steps))
    attributes = {"starts": starts, "stops": stops, "steps": steps, "axes": tuple(range(-x.ndim, 0))}
    y = slicing.slice(x, **attributes)
    np.testing.assert_array_equal(y, x[index])
    expected = np.zeros(shape)
    expected[index] = y + 1
    np.testing.assert_array_equal(gradient(slicing.slice, y + 1, y, x, **attributes), expected)


@settings(deadline=None)
@given(shapes, st.data(), st.sampled_from(["constant", "reflect", "replicate", "circular"]))
def test_pad_and_its_gradient(shape: tuple[int, ...], data: st.DataObject, mode: str) -> None:
    unpadded = 0 if mode == "constant" else 2  # torch leaves batch and channels alone in the other modes
    x = numbered(shape if mode == "constant" else (2, 2, *shape[:2]))
    before, after = [0] * x.ndim, [0] * x.ndim
    for axis in range(unpadded, x.ndim):
        size = x.shape[axis]
        before[axis] = data.draw(st.integers(-size, 6))
        after[axis] = data.draw(st.integers(-size, 6))
        kept = size + min(before[axis], 0) + min(after[axis], 0)
        assume(kept > 0)
        most = {"reflect": kept - 1, "circular": kept}.get(mode, 6)
        assume(max(before[axis], after[axis]) <= most)
    pairs = list(zip(before, after, strict=True))[unpadded:]
    amounts = [amount for pair in reversed(pairs) for amount in pair]
    tensor = torch.from_numpy(x).requires_grad_()
    expected = functional.pad(tensor, amounts, mode)
    attributes = {"before": tuple(before), "after": tuple(after), "mode": mode}
    y = slicing.pad(x, **attributes)
    np.testing.assert_array_equal(y, expected.detach().numpy())
    g = np.random.default_rng(0).standard_normal(y.shape)
    (expected_gradient,) = torch.autograd.grad(expected, tensor, torch.from_numpy(g))
    np.testing.assert_allclose(
        gradient(slicing.pad, g, y, x, **attributes), expected_gradient.numpy(), rtol=1e-12, atol=1e-12
    )


@settings(deadline=None)
@given(shapes, st.data())
def test_roll_and_its_gradient(shape: tuple[int, ...], data: st.DataObject) -> None:
    x = numbered(shape)
    axes = tuple(data.draw(st.lists(st.integers(-x.ndim, x.ndim - 1), min_size=1, max_size=3)))
    shifts = tuple(data.draw(st.integers(-9, 9)) for _ in axes)
    y = shaping.roll(x, shifts=shifts, axes=axes)
    np.testing.assert_array_equal(y, torch.from_numpy(x).roll(shifts, axes).numpy())
    np.testing.assert_array_equal(gradient(shaping.roll, y, y, x, shifts=shifts, axes=axes), x)


@settings(deadline=None)
@given(shapes, st.data())
def test_expand_and_its_gradient(shape: tuple[int, ...], data: st.DataObject) -> None:
    x = numbered(tuple(data.draw(st.sampled_from([1, size])) for size in shape))[(0,) * data.draw(st.integers(0, 1))]
    y = shaping.expand(x, shape=shape)
    np.testing.assert_array_equal(y, np.broadcast_to(x, shape))
    copies = np.prod(shape) / max(x.size, 1)
    np.testing.assert_array_equal(gradient(shaping.expand, np.ones(shape), y, x, shape=shape), np.full(x.shape, copies))


@settings(deadline=None)
@given(
    st.floats(-20, 20).map(lambda x: round(x, 2)),
    st.floats(-20, 20).map(lambda x: round(x, 2)),
    st.sampled_from([0.1, 0.25, 0.3, 1.0, 1.7]),
)
def test_float_ranges_are_those_of_torch(start: float, stop: float, step: float) -> None:
    step = step if start <= stop else -step
    expected = torch.arange(start, stop, step, dtype=torch.float64).numpy()
    actual = creation.arange(start=start, stop=stop, step=step, dtype=np.dtype(np.float64))
    np.testing.assert_allclose(actual, expected, rtol=1e-15, atol=1e-14)


@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16, np.int8, np.bool_])
def test_moving_data_keeps_the_dtype(dtype: Any) -> None:
    x = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
    for y in [
        shaping.transpose(x, permutation=(1, 0)),
        slicing.concat(x, x, axis=0),
        shaping.triangle(x, upper=True),
        slicing.pad(x, before=(1, 0), after=(0, 1)),
        slicing.pad(x, before=(0, 1), after=(0, 1), mode="reflect"),
        creation.full(shape=(2,), value=1, dtype=np.dtype(dtype)),
        creation.arange(stop=2, dtype=np.dtype(dtype)),
    ]:
        assert y.dtype == dtype


def test_what_does_not_fit_is_refused() -> None:
    x = np.zeros((2, 3))
    with pytest.raises(ShapeError, match="has 7 elements, the operand 6"):
        shaping.reshape(x, shape=(7,))
    with pytest.raises(ShapeError, match="not a permutation"):
        shaping.transpose(x, permutation=(0, 0))
    with pytest.raises(ShapeError, match="does not broadcast"):
        shaping.expand(x, shape=(2, 4))
    with pytest.raises(ShapeError, match="differ outside axis 0"):
        slicing.concat(x, np.zeros((2, 4)), axis=0)
    with pytest.raises(ShapeError, match="does not lie within"):
        slicing.slice(x, starts=(0,), stops=(4,), steps=(1,), axes=(1,))
    with pytest.raises(ShapeError, match="reflect adds at most 2 elements to axis 1"):
        slicing.pad(x, before=(0, 3), after=(0, 0), mode="reflect")
    with pytest.raises(ShapeError, match="cannot crop"):
        slicing.pad(x, before=(-1, 0), after=(-2, 0))
