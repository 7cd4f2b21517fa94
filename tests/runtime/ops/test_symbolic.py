"""Ops with symbolic sizes: recorded once with symbols, they give what eager ops give for each size, in ONNX too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cellbridge.converter.onnx_out.export import to_onnx
from cellbridge.runtime.compiled.session import run_model
from cellbridge.runtime.errors import ShapeError
from cellbridge.runtime.ir.dims import Dim, minimum, symbol
from cellbridge.runtime.ir.program import Program
from cellbridge.runtime.ir.types import FLOAT64, INT64, CellCall, Type
from cellbridge.runtime.ops import (
    creation,
    get,
    indexing,
    linear,
    products,
    reduction,
    scanning,
    shaping,
    slicing,
    sorting,
)
from cellbridge.runtime.programs.gradient_program import differentiate
from cellbridge.runtime.programs.interpreter import execute
from cellbridge.runtime.tracing import Builder
from cellbridge.runtime.tree import TENSOR, Structure

Array = np.ndarray[Any, Any]

N, M = symbol("n"), symbol("m")
SIZES = [(3, 4), (5, 2), (4, 4)]

# Name: what to compute from x (n, m, 6), with n and m at hand as symbols or integers.
FUNCTIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "reshape_one": lambda x, n, m: shaping.reshape(x, shape=(n, m * 6)),
    "reshape_two": lambda x, n, m: shaping.reshape(x, shape=(n * m, 2, 3)),
    "expand": lambda x, n, m: shaping.expand(x, shape=(m, n, m, 6)),
    "concat": lambda x, n, m: slicing.concat(x, x * 2.0, axis=1),
    "slice": lambda x, n, m: slicing.slice(x, starts=(0, m - 1), stops=(n - 1, m), steps=(1, 1), axes=(0, 1)),
    "slice_clamped": lambda x, n, m: slicing.slice(x, starts=(0,), stops=(minimum(n, 4),), steps=(3,), axes=(0,)),
    "slice_step": lambda x, n, m: slicing.slice(x, starts=(1,), stops=(m,), steps=(2,), axes=(1,)),
    "flip": lambda x, n, m: shaping.flip(x, axes=(0, 1)),
    "tile": lambda x, n, m: slicing.tile(x, repeats=(2, n, 1)),
    "roll": lambda x, n, m: shaping.roll(x, shifts=(3, -7), axes=(0, 1)),
    "triangle": lambda x, n, m: shaping.triangle(shaping.transpose(x, permutation=(2, 0, 1)), upper=False, k=1),
    "pad_to_multiple": lambda x, n, m: slicing.pad(x, before=(0, 0, 0), after=((0 - n) % 4, m, 0)),
    "pad_crop": lambda x, n, m: slicing.pad(x, before=(2 - n, 0, -1), after=(0, 1 - m, 0)),
    "pad_reflect": lambda x, n, m: slicing.pad(x, before=(n - 1, 0, 0), after=(1, m - 1, 2), mode="reflect"),
    "pad_replicate": lambda x, n, m: slicing.pad(x, before=(1, m, 0), after=(0, 2, -1), mode="replicate"),
    "pad_circular": lambda x, n, m: slicing.pad(x, before=(n, 1, 0), after=(2, m, -1), mode="circular"),
    "sum": lambda x, n, m: reduction.reduce_sum(x, axes=(0,)),
    "mean": lambda x, n, m: reduction.reduce_mean(x, axes=(0, 2)),
    "max": lambda x, n, m: reduction.reduce_max(x, axes=(1,)),
    "prod": lambda x, n, m: products.reduce_prod(x, axes=(1,)),
    "logsumexp": lambda x, n, m: reduction.logsumexp(x, axes=(0,)),
    "variance": lambda x, n, m: reduction.variance(x, axes=(0, 1), keepdims=True),
    "cumsum": lambda x, n, m: scanning.cumsum(x, axis=1),
    "cumprod": lambda x, n, m: scanning.cumprod(x, axis=1),
    "cummax": lambda x, n, m: scanning.cummax(x, axis=0)[0],
    "sort": lambda x, n, m: sorting.sort(x, axis=0, descending=True)[0],
    "topk": lambda x, n, m: sorting.topk(x, k=2, axis=1)[0],
    "take": lambda x, n, m: indexing.take(x, np.array([[0, -1], [1, 1]]), axis=1),
    "gather": lambda x, n, m: indexing.gather(x, sorting.sort(x, axis=0)[1], axis=0),
    "scatter": lambda x, n, m: indexing.scatter(x, sorting.sort(x, axis=0)[1], x, axis=0, reduction="add"),
    "gather_nd": lambda x, n, m: indexing.gather_nd(x, np.array([[0, 1], [-1, 0]])),
    "slice_scatter": lambda x, n, m: indexing.slice_scatter(x, slicing.slice(x * 2.0, starts=(0,), stops=(m - 1,), steps=(1,), axes=(1,)), axis=1, start=1, stop=m),  # noqa: E501
    "matmul": lambda x, n, m: linear.matmul(x, shaping.transpose(x, permutation=(0, 2, 1))),
    "matmul_by_matrix": lambda x, n, m: linear.matmul(x, np.arange(12.0).reshape(6, 2)),
    "linear": lambda x, n, m: linear.linear(x, np.arange(12.0).reshape(2, 6), np.ones(2)),
    "full": lambda x, n, m: x * creation.full_like(x, n * m + 1, shape=(n, 1, 1)),
}  # fmt: skip


def recorded(function: Callable[[Any, Any, Any], Any]) -> Program:
    builder = Builder()
    x = builder.new_value("x", Type(FLOAT64, (N, M, 6)))
    y = function(x, N, M)
    return Program(
        inputs=(x.value,),
        outputs=(y.value,),
        nodes=tuple(builder.nodes),
        parameters={},
        buffers={},
        constants=tuple(builder.constants),
        calls=(CellCall("", "Case"),),
        arguments=Structure("tuple", (Structure("tuple", (TENSOR,)), Structure("dict"))),
        result=TENSOR,
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_symbolic_program_does_what_eager_ops_do(name: str) -> None:
    program = recorded(FUNCTIONS[name])
    backward = differentiate(program)
    model = to_onnx(program)
    for n, m in SIZES:
        x = np.random.default_rng(0).standard_normal((n, m, 6))
        expected = FUNCTIONS[name](x, n, m)
        seed = np.random.default_rng(1).standard_normal(expected.shape)
        (value,) = backward.input_gradients
        assert value is not None
        y, gradient = execute(backward.program, [x, seed], wanted=[program.outputs[0], value])
        np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-12)
        step = np.random.default_rng(2).standard_normal(x.shape) * 1e-6
        difference = FUNCTIONS[name](x + step, n, m) - FUNCTIONS[name](x - step, n, m)
        np.testing.assert_allclose((gradient * step).sum() * 2, (difference * seed).sum(), rtol=1e-5, atol=1e-12)
        (from_onnx,) = run_model(model, {model.graph.input[0].name: x}).values()
        np.testing.assert_allclose(from_onnx, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("start", "stop", "step"), [(0, N, 1), (2, N * 2, 3), (N, N + M, 1)])
def test_arange_with_symbolic_bounds(start: Dim, stop: Dim, step: int) -> None:
    def positions(x: Any, n: Any, m: Any) -> Any:
        bounds = {"start": start, "stop": stop, "step": step, "dtype": INT64}
        return x.builder.create(creation.arange, **bounds)

    program = recorded(positions)
    model = to_onnx(program)
    for n, m in SIZES:
        x = np.zeros((n, m, 6))
        first, last = (d if isinstance(d, int) else d.evaluate({"n": n, "m": m}) for d in (start, stop))
        (y,) = execute(program, [x])
        np.testing.assert_array_equal(y, np.arange(first, last, step))
        (from_onnx,) = run_model(model, {model.graph.input[0].name: x}).values()
        np.testing.assert_array_equal(from_onnx, y)


def test_arange_refuses_fractions_with_symbolic_bounds() -> None:
    with pytest.raises(ShapeError, match="integers and a positive step"):
        get("arange").infer_types([], {"start": 0, "stop": N, "step": 0.5, "dtype": FLOAT64})
