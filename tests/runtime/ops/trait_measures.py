"""What the cases of an op show of its traits, one function a trait; `test_traits` asks all ops for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cellbridge.runtime import ops
from cellbridge.runtime.errors import CellbridgeError
from cellbridge.runtime.ir.program import Program
from cellbridge.runtime.ir.types import is_floating
from cellbridge.runtime.ops.random import observe_draws
from cellbridge.runtime.ops.registry import Op, evaluate
from tests.runtime.ops.cases import OpCase
from tests.runtime.ops.checks import Array, attributes_of, inputs_of, run_kernel

FEW = 6
"""Elements of a case that are computed alone."""
FAILS = (CellbridgeError, ValueError, IndexError, np.linalg.LinAlgError)
"""What an op raises for operands that it isn't made for."""

Operands = list[Array | None]


def elementwise(_: Op, cases: Sequence[OpCase]) -> bool:
    """Elements in reverse order give the results in reverse order, and each alone gives its own."""
    return all(map(_is_elementwise, cases))


def _is_elementwise(case: OpCase) -> bool:
    inputs = inputs_of(case, "float64")
    given = [x for x in inputs if x is not None]
    ys = run_kernel(case, inputs)
    try:
        shape = np.broadcast_shapes(*(x.shape for x in given))
    except ValueError:
        return False
    if not given or any(y.shape != shape for y in ys):
        return False
    flat = [None if x is None else np.broadcast_to(x, shape).reshape(-1) for x in inputs]
    parts = [(slice(None, None, -1), shape), *((slice(i, i + 1), (1,)) for i in range(min(ys[0].size, FEW)))]
    for part, of_shape in parts:
        try:
            some = run_kernel(case, [None if x is None else x[part].reshape(of_shape) for x in flat])
        except FAILS:
            return False
        if not all(_close(result, y.reshape(-1)[part]) for y, result in zip(ys, some, strict=True)):
            return False
    return True


def _close(actual: Array, expected: Array) -> bool:
    return actual.size == expected.size and bool(
        np.allclose(actual.reshape(-1), expected.reshape(-1), rtol=1e-9, atol=0, equal_nan=True)
    )


def moves(_: Op, cases: Sequence[OpCase]) -> str:
    """Other numbers in the places of the first operand, or of all, come out in the same places of the result."""
    given = [case for case in cases if any(x is not None and is_floating(x.dtype) for x in case.inputs)]
    if not given or not all(is_floating(y.dtype) for case in given for y in _results(case)[:1]):
        return ""
    if all(_moves(case, first=True) for case in given):
        return "first"
    return "several" if all(_moves(case, first=False) for case in given) else ""


def _results(case: OpCase) -> tuple[Array, ...]:
    return run_kernel(case, inputs_of(case, "float64"))


def _moves(case: OpCase, *, first: bool) -> bool:
    inputs = inputs_of(case, "float64")
    places = [i for i, x in enumerate(inputs) if x is not None and is_floating(x.dtype)]
    if first and places[0] != 0:
        return False
    rng = np.random.default_rng(0)
    before, after = list(inputs), list(inputs)
    moved: dict[float, float] = {}
    for i in places[:1] if first else places:
        shape = np.shape(inputs[i])
        before[i], after[i] = rng.standard_normal(shape), rng.standard_normal(shape)
        moved |= dict(zip(np.ravel(before[i]).tolist(), np.ravel(after[i]).tolist(), strict=True))
    try:
        ys, zs = (run_kernel(case, given)[0].reshape(-1) for given in (before, after))
    except FAILS:
        return False
    pairs = set(zip(ys.tolist(), zs.tolist(), strict=True)) if ys.shape == zs.shape else {(0.0, 1.0)}
    rest = {pair for pair in pairs if moved.get(pair[0], np.nan) != pair[1]}
    return not rest or (not first and len(rest) == 1 and len({*rest.copy().pop()}) == 1)


def view(_: Op, cases: Sequence[OpCase]) -> bool:
    """A result shares the memory of the first operand."""
    for case in cases:
        inputs = inputs_of(case, "float64")
        if inputs and inputs[0] is not None and any(np.shares_memory(y, inputs[0]) for y in run_kernel(case, inputs)):
            return True
    return False


def exact(_: Op, cases: Sequence[OpCase]) -> bool:
    """Numbers with all digits of float32 give in float32 what they give in float64."""
    return any(is_floating(y.dtype) for case in cases for y in _results(case)) and all(map(_is_exact, cases))


def _is_exact(case: OpCase) -> bool:
    rng = np.random.default_rng(0)
    narrow = [
        x if x is None or not is_floating(x.dtype) else (x * rng.uniform(0.9, 1.1, x.shape)).astype(np.float32)
        for x in inputs_of(case, "float64")
    ]
    wide = [x if x is None or not is_floating(x.dtype) else x.astype(np.float64) for x in narrow]
    ys, zs = run_kernel(case, narrow), run_kernel(case, wide)
    return all(np.array_equal(y, z, equal_nan=is_floating(y.dtype)) for y, z in zip(ys, zs, strict=True))


def whole(op: Op, cases: Sequence[OpCase]) -> bool:
    """Results are whole numbers, and those of whole numbers the same numbers."""
    x, numbers = np.linspace(-3.3, 3.3, 23), np.arange(-4.0, 5.0)
    ys, unchanged = (_of_one(op, cases, each) for each in (x, numbers))
    if ys is None or unchanged is None or ys.dtype != x.dtype:
        return False
    return bool((ys == np.rint(ys)).all() and (unchanged == numbers).all())


def smooth_gate(op: Op, cases: Sequence[OpCase]) -> bool:
    """The result is x times what grows from nearly 0 to nearly 1, without reaching them."""
    x = np.array([-5.0, -3.5, 3.5, 5.0])
    ys = _of_one(op, cases, x)
    if ys is None or ys.dtype != x.dtype:
        return False
    gate = ys / x
    return bool((gate > 0).all() and (gate < 1).all() and gate[0] < 0.01 and gate[-1] > 0.99)


def pole(op: Op, cases: Sequence[OpCase]) -> bool:
    """Infinite at -1, 0 or 1, a number on one side of it, and none on the other."""
    for end in (-1.0, 0.0, 1.0):
        ys = _of_one(op, cases, np.array([end - 1e-3, end, end + 1e-3]))
        if ys is not None and is_floating(ys.dtype) and np.isinf(ys[1]) and np.isnan(ys[[0, 2]]).sum() == 1:
            return True
    return False


def _of_one(op: Op, cases: Sequence[OpCase], x: Array) -> Array | None:
    """The first result of an op of one number; None if it is no such op."""
    if op.variadic or len(op.input_names) != 1:
        return None
    try:
        with np.errstate(all="ignore"):
            result = evaluate(op, [x], attributes_of(cases[0], [x]))[0]
    except FAILS:
        return None
    return result if result.shape == x.shape else None


def compares(op: Op, cases: Sequence[OpCase]) -> bool:
    """Truth values of two numbers, the same for all pairs that are in the same order."""
    if op.variadic or len(op.input_names) != 2:
        return False
    a = np.array([[-2.0, 1.0, 3.0], [1.0, 2.0, -4.0], [3.0, -2.0, 0.5]])
    b = a + np.array([[-1.0], [0.0], [7.0]])
    try:
        (ys,) = evaluate(op, [a, b], attributes_of(cases[0], [a, b]))
    except FAILS:
        return False
    return ys.dtype == bool and ys.shape == a.shape and bool((ys == ys[:, :1]).all()) and len(np.unique(ys)) == 2


def products(op: Op, cases: Sequence[OpCase]) -> bool:
    """Linear in each of the first two operands, without the others that may be absent, and not element by element."""
    given = [
        case for case in cases if not has_body(case) and all(x is None or is_floating(x.dtype) for x in case.inputs[:2])
    ]
    return bool(given) and not op.variadic and all(map(_is_bilinear, given)) and not any(map(_is_elementwise, given))


def _is_bilinear(case: OpCase) -> bool:
    inputs = inputs_of(case, "float64")
    op = ops.get(case.op)
    if has_body(case) or len(inputs) < 2 or any(x is None or not is_floating(x.dtype) for x in inputs[:2]):
        return False
    rest: Operands = [x if i < op.required_inputs else None for i, x in enumerate(inputs) if i >= 2]
    rng = np.random.default_rng(0)
    first, second, third = ([rng.standard_normal(np.shape(x)) for x in inputs[:2]] for _ in range(3))
    try:
        both = [run_kernel(case, [*pair, *rest]) for pair in (first, (first[0], second[1]), (second[0], first[1]))]
        sums = [
            run_kernel(case, [*pair, *rest])
            for pair in ((first[0], first[1] + second[1]), (first[0] + second[0], first[1]), third)
        ]
    except FAILS:
        return False
    return len(both[0]) == 1 and all(
        np.allclose(both[0][0] + part[0], total[0], rtol=1e-6, atol=1e-9)
        for part, total in zip(both[1:], sums, strict=False)
    )


def draws(op: Op, cases: Sequence[OpCase]) -> bool:
    """Its numbers can be replaced by others, which are replayed."""
    op_names: list[str] = []

    def observe(op: str, array: Array) -> Array:
        op_names.append(op)
        return array

    with observe_draws(observe):
        for case in cases:
            _results(case)
    return op_names == [op.name] * len(cases)


def recurrent(op: Op, _: Sequence[OpCase]) -> bool:
    """It has weights for the state of the step before."""
    return "weight_hh" in op.input_names


def has_body(case: OpCase) -> bool:
    """Whether a case has a sub-program."""
    return any(isinstance(item, Program) for item in case.attributes.values())


MEASURES: dict[str, Callable[[Op, Sequence[OpCase]], Any]] = {
    measure.__name__: measure
    for measure in (
        elementwise, moves, view, whole, compares, products, smooth_gate, draws, exact, pole, recurrent,
    )
}  # fmt: skip
"""The traits that cases show."""
