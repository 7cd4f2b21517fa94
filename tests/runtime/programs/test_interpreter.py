"""The interpreter: what it computes, when it forgets it, and what it says when something doesn't fit."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest

from cellbridge.runtime import CellbridgeError, UsageError, execute
from cellbridge.runtime.ir.dims import symbol
from cellbridge.runtime.ir.program import Program
from cellbridge.runtime.ir.types import Node, Source
from cellbridge.runtime.ops import elementwise, random, shaping, slicing
from cellbridge.runtime.ops.boundary import boundary
from cellbridge.runtime.programs.interpreter import bind
from cellbridge.runtime.programs.plan import plan
from tests.runtime.building import build

N = symbol("n")
X = np.array([1.0, 2.0], np.float32)


def test_only_what_is_wanted_is_computed() -> None:
    program = build(lambda x: (elementwise.exp(x), elementwise.log(x)), (2,))
    assert [step.node.op for step in plan(program, program.outputs[:1])] == ["exp"]
    (result,) = execute(program, [X], wanted=program.outputs[:1])
    np.testing.assert_allclose(result, np.exp(X), rtol=1e-6)


def marked(x: Any) -> Any:
    for slot in ("a", "b", "c"):
        x = boundary(x + 1.0, call=0, kind="output", slot=slot)
    return x


def test_values_are_freed_after_their_last_use() -> None:
    references: list[weakref.ref[Any]] = []
    alive: list[int] = []

    def observe(node: Node, array: Any) -> Any:
        references.append(weakref.ref(array))
        alive.append(sum(r() is not None for r in references))
        return array

    execute(build(marked, (2,)), [X], observe=observe)
    assert max(alive) <= 2, "the one computed and the one it is computed of"


def test_an_observer_sees_and_replaces_boundaries() -> None:
    slots: list[str] = []

    def observe(node: Node, array: Any) -> Any:
        slots.append(node.attributes["slot"])
        return array * 10

    (result,) = execute(build(marked, (2,)), [X], observe=observe)
    assert slots == ["a", "b", "c"]
    np.testing.assert_array_equal(result, ((X + 1) * 10 + 1) * 100 + 10)


def test_draws_are_replayed() -> None:
    def draw(x: Any) -> Any:
        return x * x.builder.create(random.normal, shape=(2,), dtype=x.dtype)

    program = build(draw, (2,))
    (name,) = (node.outputs[0].name for node in program.nodes if node.op == "normal")
    (result,) = execute(program, [X], draws={name: np.array([3.0, 4.0])})
    np.testing.assert_array_equal(result, [3, 8])


def test_symbolic_sizes_are_read_off_the_inputs() -> None:
    program = build(lambda x: shaping.reshape(x, shape=(N * 3,)), (N, 3))
    for n in (1, 4):
        assert execute(program, [np.zeros((n, 3), np.float32)])[0].shape == (3 * n,)


def test_a_symbol_can_stand_in_an_expression_alone() -> None:
    program = build(lambda x: shaping.reshape(x, shape=(2, N)), (2 * N,))
    assert bind(program, [np.zeros(6, np.float32)]) == {"n": 3}
    with pytest.raises(UsageError, match=r"needed size 2\*n = 6, given 7"):
        bind(program, [np.zeros(7, np.float32)])


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([X], "takes 2 tensors, given 1"),
        ([X.astype(np.float64), X], r"input 'x' \(argument 0\): needed float32\[n\], given float64\[2\]"),
        ([X, X[None]], r"input 'x_1' \(argument 1\): needed float32\[n\], given float32\[1, 2\]"),
        ([X, X[:1]], "dimension 0: needed size n = 2, given 1"),
    ],
)
def test_inputs_that_do_not_fit(inputs: list[Any], message: str) -> None:
    program: Program = build(lambda x, y: x + y, (N,), (N,))
    with pytest.raises(UsageError, match=message):
        execute(program, inputs)


def test_a_failing_op_is_named_with_cell_and_line() -> None:
    def fail(x: Any) -> Any:
        with x.builder.at(0, Source("model.py", 7, "x.reshape(2)", "aten.reshape")):
            return shaping.reshape(x, shape=(N * 2,))

    with pytest.raises(CellbridgeError, match=r"op reshape\(float32\[3\]\) failed in Cell \(root\): (?s:.*)model.py:7"):
        execute(build(fail, (N,)), [np.zeros(3, np.float32)])


def test_a_slice_that_the_size_does_not_allow_is_told() -> None:
    program = build(lambda x: slicing.slice(x, starts=(N - 2,), stops=(N,), steps=(1,), axes=(0,)), (N,))
    np.testing.assert_array_equal(program(X), X)
    with pytest.raises(CellbridgeError, match="-1:1 does not lie within axis 0 of size 1"):
        program(X[:1])
