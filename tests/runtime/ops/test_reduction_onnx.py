"""Sums and means in ONNX Runtime: as exact as torch's, block by block where there are many elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import cellbridge.runtime as ms
from cellbridge.runtime.compiled.executable import lower_values
from cellbridge.runtime.ir.dims import symbol
from cellbridge.runtime.ir.program import Program
from cellbridge.runtime.ops import adaptive_pooling, reduction
from tests.runtime.building import build
from tests.runtime.ops.cases import OpCase
from tests.runtime.ops.checks import check_onnx

B = symbol("b")


def summed(shape: Any, axes: Any, dtype: str = "float32") -> Program:
    return build(lambda x: reduction.reduce_sum(x, axes=axes), shape, dtype=dtype)


def operators(program: Program) -> list[str]:
    return [node.op_type for node in lower_values(program, program.outputs, ()).graph.nodes]


def positive(*shape: int) -> np.ndarray[Any, Any]:
    return np.square(np.random.default_rng(0).standard_normal(shape)).astype(np.float32)


@pytest.mark.parametrize("op", ["reduce_sum", "reduce_mean"])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((8192, 40), (0,)),
        ((8, 1024, 40), (0, 1)),
        ((16, 64, 32, 32), None),
        ((16, 64, 32, 32), (0, 2, 3)),
        ((128, 1000), None),
        ((3, 200, 2, 300), (1, 3)),
        ((3, 65536), (1,)),
        ((2, 16384, 3), (1,)),
        ((100_000,), (0,)),
    ],
)
def test_errors_are_of_the_size_of_torch_s(op: str, shape: Any, axes: Any) -> None:
    x = positive(*shape)
    at = tuple(range(len(shape))) if axes is None else axes
    truth = getattr(np, op.removeprefix("reduce_"))(x.astype(np.float64), axis=at)
    by_torch = getattr(torch, op.removeprefix("reduce_"))(torch.from_numpy(x), dim=at).numpy()
    actual = ms.compile(build(lambda x: getattr(reduction, op)(x, axes=axes), shape))(x)

    def error(y: Any) -> float:
        return float(np.abs(y / truth - 1).max())

    assert error(actual) <= max(6 * error(by_torch), 2e-7)


def test_means_of_large_images_are_as_exact() -> None:
    x = positive(2, 3, 256, 256)
    program = build(lambda x: adaptive_pooling.adaptive_avg_pool(x, output_size=(1, 1)), x.shape)
    np.testing.assert_allclose(ms.compile(program)(x)[..., 0, 0], x.astype(np.float64).mean((2, 3)), rtol=2e-7)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_blocks_add_up_to_the_whole(data: st.DataObject) -> None:
    sizes = st.sampled_from([1, 2, 3, 16, 60, 256, 300, 1021])
    shape = tuple(data.draw(sizes) for _ in range(data.draw(st.integers(1, 3))))
    if np.prod(shape) > 2**18:
        shape = (*shape[:-1], 2)
    axes = tuple(sorted(data.draw(st.sets(st.integers(0, len(shape) - 1)))))
    op, keepdims = data.draw(st.sampled_from(["reduce_sum", "reduce_mean", "reduce_max"])), data.draw(st.booleans())
    x = positive(*shape)  # nothing cancels, so that rounding is small beside the sum
    case = OpCase(op, (x,), {"axes": axes, "keepdims": keepdims})
    check_onnx(case, data.draw(st.sampled_from(["float32", "float64"])))


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize(
    ("shape", "axes"), [((B, 128, 5), (0, 1)), ((B, 3, 64, 64), None), ((2, B, 96), (1, 2)), ((128 * B, 7), (0,))]
)
def test_sizes_may_be_symbolic(shape: Any, axes: Any, keepdims: bool) -> None:
    program = build(lambda x: reduction.reduce_mean(x, axes=axes, keepdims=keepdims), shape)
    assert operators(program).count("ReduceMean") == 2
    compiled = ms.compile(program)
    for size in (1, 5):
        x = positive(*(int(n.evaluate({"b": size})) if n not in range(1000) else n for n in shape))
        np.testing.assert_allclose(compiled(x), program(x), rtol=1e-6)


@pytest.mark.parametrize(
    ("shape", "axes", "count"),
    [
        ((255, 8), (0,), 1),  # few rows
        ((256, 8), (0,), 2),
        ((257, 8), (0,), 1),  # no block divides them
        ((1, 256, 8), (1,), 2),
        ((4, 256, 8), (1,), 1),
        ((4, 8192), (1,), 2),
        ((4, 4096), (1,), 1),
        ((64, 3, 64), (0, 2), 1),
        ((512, 3, 128), (0, 2), 1),
        ((3, 200, 2, 300), (1, 3), 2),
        ((B, 8), (0,), 1),  # nothing known of them
    ],
)
def test_few_elements_are_added_at_once(shape: Any, axes: Any, count: int) -> None:
    assert operators(summed(shape, axes)).count("ReduceSum") == count
