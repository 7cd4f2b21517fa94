"""Constant folding on import: numbers by the interpreter, symbolic sizes by the rules in this module.

A model computes the shapes it needs with operators (Shape, Gather, Concat, Reshape). If its inputs have symbolic
dimensions, the elements of such tensors are symbolic sizes, for which this module has rules for a few operators.
"""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...runtime.errors import CellbridgeError
from ...runtime.ir.dims import Dim, SymbolicDim, maximum, minimum, product
from ...runtime.ir.program import Program
from ...runtime.ir.types import BOOL, CellCall, Node
from ...runtime.ops.registry import get
from ...runtime.programs.interpreter import execute
from ...runtime.registration import register_as
from ...runtime.tracing import Builder, SymbolicTensor
from ...runtime.tree import TENSOR, Structure
from ..unsupported import Unsupported
from .model.protos import dtype_of
from .model.values import Array, KnownTensor, known_dims

MAX_SIZE_ELEMENTS = 1000  # elements of a tensor of sizes, some of them symbolic
MAX_NODE_ELEMENTS = 2**16  # elements that a node may compute on import; larger results are computed by the program
MAX_TOTAL_ELEMENTS = 2**28  # elements that all nodes together may compute on import
Apply = Callable[[Any, Any, list[Any], Builder], Any]


class DependsOnSymbols(Exception):
    """Raised by a rule of `SIZES` if the result depends on the values of symbols."""


class Budget:
    """The number of elements that may still be computed while one model is imported."""

    def __init__(self) -> None:
        self.remaining = MAX_TOTAL_ELEMENTS

    def allows(self, nodes: Sequence[Node]) -> bool:
        """Whether these nodes may be computed; their elements are subtracted from the budget.

        Nodes that take many steps for each element may not; they compute no shapes.
        """
        if any(get(node.op).traits.costly for node in nodes):
            return False
        shapes = [value.shape for node in nodes for value in node.outputs]
        count = sum(math.prod(d if isinstance(d, int) else MAX_NODE_ELEMENTS + 1 for d in shape) for shape in shapes)
        self.remaining -= count if count <= MAX_NODE_ELEMENTS else 0
        return count <= MAX_NODE_ELEMENTS and self.remaining >= 0


def fold(
    op_type: str, operands: list[Any], attributes: dict[str, Any], apply: Callable[..., Any], budget: Budget
) -> Sequence[Any] | None:
    """The outputs of an operator on known operands; None if the program must compute them.

    Args:
        op_type: name of the operator.
        operands: known tensors, or None for absent ones.
        attributes: the attributes of the node.
        apply: records the operator on operands with a builder.
        budget: the budget of the model.
    """
    if any(isinstance(x, KnownTensor) and x.symbolic for x in operands):
        rule = SIZES.get(op_type)
        if (
            rule is None
            or _lacks_operand(rule, operands)
            or any(x is not None and x.data.size > MAX_SIZE_ELEMENTS for x in operands)
        ):
            return None
        try:
            return (rule(*operands, **attributes),)
        except (DependsOnSymbols, TypeError, ValueError, IndexError, ZeroDivisionError):
            return None
    scratch = Builder()
    try:
        results = apply(operands, scratch)
    except (Unsupported, CellbridgeError):
        return None
    if all(isinstance(x, KnownTensor) or x is None for x in results):
        return tuple(results)
    if not all(isinstance(x, SymbolicTensor | KnownTensor) for x in results):
        return None
    if not budget.allows(scratch.nodes):
        return None
    values = [x.value for x in results if isinstance(x, SymbolicTensor)]
    program = Program(
        (), tuple(values), tuple(scratch.nodes), {}, {}, tuple(scratch.constants), (CellCall("", op_type),),
        Structure("tuple"), Structure("tuple", (TENSOR,) * len(values)),
    )  # fmt: skip
    try:
        arrays = iter(execute(program, []))
    except CellbridgeError:
        return None
    return tuple(x if isinstance(x, KnownTensor) else KnownTensor(array := next(arrays), array.dtype) for x in results)


SIZES: dict[str, Callable[..., KnownTensor]] = {}


def sizes(*operators: str) -> Callable[[Callable[..., KnownTensor]], Callable[..., KnownTensor]]:
    """Register a rule for operators on symbolic sizes; a registered name raises."""
    return register_as(SIZES, operators)


def _lacks_operand(rule: Callable[..., KnownTensor], operands: Sequence[KnownTensor | None]) -> bool:
    """Whether an operand that the rule needs is absent."""
    parameters = list(inspect.signature(rule).parameters.values())
    optional = {i for i, parameter in enumerate(parameters) if parameter.default is None}
    return any(x is None and i not in optional for i, x in enumerate(operands))


def _objects(x: KnownTensor) -> Array:
    return x.data if x.symbolic else x.data.astype(object)


def _ints(x: KnownTensor | None) -> Any:
    if x is None:
        return None
    if x.symbolic:
        raise DependsOnSymbols
    return x.contents()


def _with_data(x: KnownTensor, data: Any) -> KnownTensor:
    array = data if isinstance(data, np.ndarray) else np.array(data, object)
    return known_dims(array, x.dtype)


# ---- arithmetic ----


def _mul(a: Any, b: Any) -> Any:
    return _to_int(a) * _to_int(b)


def _div(a: Any, b: Any) -> Any:
    if isinstance(a, float) or isinstance(b, float):
        quotient = _to_int(a) // _to_int(b)
        if quotient * _to_int(b) != a:
            raise DependsOnSymbols
        return quotient
    if not isinstance(a, SymbolicDim) and not isinstance(b, SymbolicDim):
        return int(a / b) if abs(a) < 2**53 else a // b
    return a // b


def _to_int(x: Any) -> Any:
    """An integral number of any type as an int; a fraction is not a size."""
    if isinstance(x, float):
        if not x.is_integer():
            raise DependsOnSymbols
        return int(x)
    return x


def _arithmetic(function: Callable[[Any, Any], Any]) -> Callable[..., KnownTensor]:
    def rule(a: KnownTensor, b: KnownTensor, *, fmod: int = 0) -> KnownTensor:
        return _with_data(a, np.frompyfunc(function, 2, 1)(_objects(a), _objects(b)))

    return rule


SIZES |= {
    "Add": _arithmetic(operator.add),
    "Sub": _arithmetic(operator.sub),
    "Mul": _arithmetic(_mul),
    "Div": _arithmetic(_div),
    "Mod": _arithmetic(operator.mod),
}


@sizes("Max")
def _max(*xs: KnownTensor) -> KnownTensor:
    return _reduce(maximum, xs)


@sizes("Min")
def _min(*xs: KnownTensor) -> KnownTensor:
    return _reduce(minimum, xs)


def _reduce(function: Callable[[Dim, Dim], Dim], xs: tuple[KnownTensor, ...]) -> KnownTensor:
    result: Any = _objects(xs[0])
    for x in xs[1:]:
        result = np.frompyfunc(function, 2, 1)(result, _objects(x))
    return _with_data(xs[0], result)


@sizes("Neg")
def _neg(x: KnownTensor) -> KnownTensor:
    return _with_data(x, np.frompyfunc(lambda a: a * -1, 1, 1)(_objects(x)))


@sizes("Identity", "Floor", "Ceil", "Round")
def _identity(x: KnownTensor) -> KnownTensor:
    return x


@sizes("Abs", "Relu")
def _nonnegative(x: KnownTensor) -> KnownTensor:
    if not all(is_nonnegative(item) for item in x.data.reshape(-1).tolist()):
        raise DependsOnSymbols
    return x


@sizes("Cast")
def _cast(x: KnownTensor, *, to: int, saturate: int = 1, round_mode: str = "up") -> KnownTensor:
    dtype = dtype_of(to, "Cast")
    if dtype == BOOL:
        decided = np.frompyfunc(_not_zero, 1, 1)(_objects(x))
        return KnownTensor(decided.astype(np.bool_), BOOL)
    return KnownTensor(x.data, dtype)


def _not_zero(a: Any) -> bool:
    if isinstance(a, SymbolicDim):
        return _compare(a, 0) != 0
    return bool(a)


# ---- comparison ----


def is_nonnegative(dim: Any) -> bool:
    """Whether a size is certain not to be negative: no symbol is, and none is subtracted."""
    if not isinstance(dim, SymbolicDim):
        return bool(dim >= 0)
    return all(c > 0 and all(isinstance(f, str) for f in monomial) for monomial, c in dim.terms)


def _compare(a: Any, b: Any) -> int:
    """-1, 0 or 1 if `a` is certain to be less than, equal to or greater than `b`."""
    difference = a - b
    if not isinstance(difference, SymbolicDim):
        return int(difference > 0) - int(difference < 0)
    if is_nonnegative(difference - 1):
        return 1
    if is_nonnegative(difference * -1 - 1):
        return -1
    raise DependsOnSymbols


def _comparison(decide: Callable[[int], bool]) -> Callable[..., KnownTensor]:
    def rule(a: KnownTensor, b: KnownTensor) -> KnownTensor:
        decided = np.frompyfunc(lambda x, y: decide(_compare(x, y)), 2, 1)(_objects(a), _objects(b))
        return KnownTensor(np.asarray(decided, np.bool_), BOOL)

    return rule


SIZES |= {
    "Equal": _comparison(lambda c: c == 0),
    "Less": _comparison(lambda c: c < 0),
    "LessOrEqual": _comparison(lambda c: c <= 0),
    "Greater": _comparison(lambda c: c > 0),
    "GreaterOrEqual": _comparison(lambda c: c >= 0),
}


@sizes("Where")
def _where(condition: KnownTensor, a: KnownTensor, b: KnownTensor) -> KnownTensor:
    return _with_data(a, np.where(condition.data.astype(np.bool_), _objects(a), _objects(b)))


# ---- shapes of vectors of sizes ----


@sizes("Concat")
def _concat(*xs: KnownTensor, axis: int) -> KnownTensor:
    return _with_data(xs[0], np.concatenate([_objects(x) for x in xs], axis))


@sizes("Gather")
def _gather(x: KnownTensor, indices: KnownTensor, *, axis: int = 0) -> KnownTensor:
    _ints(indices)
    return _with_data(x, np.take(_objects(x), indices.data, axis))


@sizes("Slice")
def _slice(
    x: KnownTensor,
    starts: KnownTensor,
    ends: KnownTensor,
    axes: KnownTensor | None = None,
    steps: KnownTensor | None = None,
) -> KnownTensor:
    first, last = _ints(starts), _ints(ends)
    index: list[Any] = [slice(None)] * x.ndim
    at = _ints(axes) if axes is not None else range(len(first))
    by = _ints(steps) if steps is not None else (1,) * len(first)
    for axis, start, stop, step in zip(at, first, last, by, strict=True):
        index[axis] = slice(start, None if step < 0 and stop < -x.shape[axis] else stop, step)
    return _with_data(x, _objects(x)[tuple(index)])


@sizes("Squeeze")
def _squeeze(x: KnownTensor, axes: KnownTensor | None = None) -> KnownTensor:
    return _with_data(x, np.squeeze(_objects(x), None if axes is None else _ints(axes)))


@sizes("Unsqueeze")
def _unsqueeze(x: KnownTensor, axes: KnownTensor) -> KnownTensor:
    return _with_data(x, np.expand_dims(_objects(x), _ints(axes)))


@sizes("Reshape")
def _reshape(x: KnownTensor, shape: KnownTensor, *, allowzero: int = 0) -> KnownTensor:
    return _with_data(x, _objects(x).reshape(_ints(shape)))


@sizes("Flatten")
def _flatten(x: KnownTensor, *, axis: int = 1) -> KnownTensor:
    return _with_data(x, _objects(x).reshape(math.prod(x.shape[:axis]), -1))


@sizes("Transpose")
def _transpose(x: KnownTensor, *, perm: list[int] | None = None) -> KnownTensor:
    return _with_data(x, np.transpose(_objects(x), perm))


@sizes("Expand")
def _expand(x: KnownTensor, shape: KnownTensor) -> KnownTensor:
    to = np.broadcast_shapes(x.shape, _ints(shape))
    if math.prod(to) > MAX_SIZE_ELEMENTS:
        raise DependsOnSymbols
    return _with_data(x, np.broadcast_to(_objects(x), to).copy())


@sizes("Tile")
def _tile(x: KnownTensor, repeats: KnownTensor) -> KnownTensor:
    times = _ints(repeats)
    if x.data.size * math.prod(times) > MAX_SIZE_ELEMENTS:
        raise DependsOnSymbols
    return _with_data(x, np.tile(_objects(x), times))


def _reduction(combine: Callable[[list[Any]], Any]) -> Callable[..., KnownTensor]:
    def rule(
        x: KnownTensor, axes: KnownTensor | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> KnownTensor:
        if x.ndim != 1 or (axes is not None and _ints(axes) not in ((0,), (-1,))):
            raise DependsOnSymbols
        result = np.empty((1,) if keepdims else (), object)
        result[...] = combine(x.data.tolist())
        return _with_data(x, result)

    return rule


def _extremum(pick: Callable[[Dim, Dim], Dim]) -> Callable[[list[Any]], Any]:
    def combine(items: list[Any]) -> Any:
        result = items[0]
        for item in items[1:]:
            result = pick(result, item)
        return result

    return combine


SIZES |= {
    "ReduceProd": _reduction(product),
    "ReduceSum": _reduction(sum),
    "ReduceMax": _reduction(_extremum(maximum)),
    "ReduceMin": _reduction(_extremum(minimum)),
}


@sizes("Size")
def _size(x: KnownTensor) -> KnownTensor:
    return KnownTensor(np.array(x.data.size), np.dtype(np.int64))


@sizes("Shape")
def _shape(x: KnownTensor, *, start: int = 0, end: int | None = None) -> KnownTensor:
    return KnownTensor(np.array(x.shape[start:end], np.int64), np.dtype(np.int64))


@sizes("ScatterND")
def _scatter_nd(x: KnownTensor, indices: KnownTensor, updates: KnownTensor, *, reduction: str = "none") -> KnownTensor:
    if reduction != "none" or indices.data.shape[-1] != 1 or x.ndim != 1:
        raise DependsOnSymbols
    data = _objects(x).copy()
    data[indices.data[..., 0]] = _objects(updates)
    return _with_data(x, data)
