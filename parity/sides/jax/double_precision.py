"""A run of JAX in float64, in which code that asks for float32 or half precision gets float64.

Networks cast: attention computes its softmax in float32, a norm its statistics. A run in float64, which shows whether
two networks are the same function, must not lose precision there. So the function is traced with its own dtypes, its
derivative included, and each of its equations is evaluated on wider values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from ..rounded_numbers import perturb

_CALLS = {"custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr", "closed_call": "call_jaxpr"}
"""Primitives that call a function, which is evaluated in their place: its derivative has been traced already."""
_OF_DTYPES = ("bitcast_convert_type", "pure_callback", "io_callback", "debug_callback", "ffi_call", "pallas_call")
"""Primitives whose meaning depends on the dtypes of their operands."""


def evaluate_in_double(function: Callable[..., Any], arguments: Sequence[Any], *, perturbed: bool = False) -> Any:
    """Call a function with all of its floating-point numbers in float64, complex ones in complex128.

    Numbers that the code rounds to a dtype itself, such as `jnp.float32(0.1)`, keep their rounded value.

    Args:
        function: a function of JAX, which returns a pytree of arrays; it isn't differentiated afterwards.
        arguments: its arguments, pytrees of arrays.
        perturbed: whether the numbers in the code, which may have been rounded, are perturbed as `rounded_numbers`
            describes; the arguments aren't.
    """
    closed, shape = jax.make_jaxpr(function, return_shape=True)(*arguments)
    leaves = [_widen(jnp.asarray(leaf)) for leaf in jax.tree.leaves(arguments)]
    evaluator = _Evaluator(perturbed)
    constants = evaluator.numbers(closed.consts)
    # compiled as a whole, which takes a fraction of the time that compiling each primitive takes
    results = jax.jit(lambda *numbers: evaluator.run(closed.jaxpr, *numbers))(constants, leaves)
    return jax.tree.unflatten(jax.tree.structure(shape), results)


class _Evaluator:
    """Evaluates jaxprs on values in double precision.

    Args:
        perturbed: whether literals and constants are perturbed.
    """

    def __init__(self, perturbed: bool) -> None:
        self._perturbed = perturbed
        self._widened: dict[int, tuple[Any, Any]] = {}  # jaxprs by identity, which is theirs as long as they are kept

    def run(self, jaxpr: Jaxpr, constants: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
        """Return the results of a jaxpr on constants and operands in double precision, in double precision."""
        values = dict(zip(jaxpr.constvars, constants, strict=True)) | dict(zip(jaxpr.invars, operands, strict=True))

        def read(variable: Any) -> Any:
            return self._number(variable.val) if isinstance(variable, Literal) else values[variable]

        last = {id(variable): number for number, equation in enumerate(jaxpr.eqns) for variable in equation.invars}
        kept = set(map(id, jaxpr.outvars))
        for number, equation in enumerate(jaxpr.eqns):
            results = self._evaluate(equation, [read(variable) for variable in equation.invars])
            values |= dict(zip(equation.outvars, results, strict=True))
            for variable in equation.invars:  # what isn't used any more needn't take memory
                if last[id(variable)] == number and id(variable) not in kept and not isinstance(variable, Literal):
                    values.pop(variable, None)
        return [read(variable) for variable in jaxpr.outvars]

    def _evaluate(self, equation: Any, operands: list[Any]) -> list[Any]:
        """Return the results of an equation."""
        primitive, params = equation.primitive, equation.params
        name = primitive.name
        if name in _CALLS:
            return self._run_closed(_closed(params[_CALLS[name]]), operands)
        if name in _OF_DTYPES:
            declared = [x.aval for x in equation.invars]
            operands = [_as_declared(x, aval) for x, aval in zip(operands, declared, strict=True)]
        elif name == "reduce_precision" and _keeps_all_digits(equation):
            return operands
        else:
            params = {key: self._parameter(value) for key, value in params.items()}
        results = primitive.bind(*operands, **params)
        return [_widen(result) for result in (results if primitive.multiple_results else [results])]

    def _parameter(self, value: Any) -> Any:
        """Return a parameter of a primitive for operands in double precision."""
        if isinstance(value, (ClosedJaxpr, Jaxpr)):
            if id(value) not in self._widened:
                self._widened[id(value)] = value, self._of_jaxpr(value)
            return self._widened[id(value)][1]
        if isinstance(value, np.dtype):
            return _wide(value)
        if type(value) is tuple:
            return tuple(map(self._parameter, value))
        return value

    def _run_closed(self, closed: ClosedJaxpr, operands: Sequence[Any]) -> list[Any]:
        return self.run(closed.jaxpr, self.numbers(closed.consts), operands)

    def _of_jaxpr(self, jaxpr: ClosedJaxpr | Jaxpr) -> ClosedJaxpr | Jaxpr:
        """Return a jaxpr of a loop, a branch or a jitted function for operands in double precision."""
        closed = _closed(jaxpr)
        shape_of: Any = jax.ShapeDtypeStruct
        shapes = [shape_of(aval.shape, _wide(aval.dtype)) for aval in closed.in_avals]
        widened = jax.make_jaxpr(lambda *operands: self._run_closed(closed, operands))(*shapes)
        return widened if isinstance(jaxpr, ClosedJaxpr) else widened.jaxpr

    def numbers(self, values: Sequence[Any]) -> list[Any]:
        """Return arrays that the code holds, in double precision."""
        return [self._number(value) for value in values]

    def _number(self, value: Any) -> Any:
        """Return a number of the code, or an array of them."""
        if self._perturbed and jnp.issubdtype(value.dtype, jnp.floating):
            return jnp.asarray(perturb(np.asarray(value)))
        return _widen(value)


def _closed(jaxpr: ClosedJaxpr | Jaxpr) -> ClosedJaxpr:
    return jaxpr if isinstance(jaxpr, ClosedJaxpr) else ClosedJaxpr(jaxpr, ())


def _wide(dtype: Any) -> Any:
    """Return the dtype in which numbers of a dtype are computed."""
    if jnp.issubdtype(dtype, jnp.floating):
        return np.dtype(np.float64)
    return np.dtype(np.complex128) if jnp.issubdtype(dtype, jnp.complexfloating) else dtype


def _widen(value: Any) -> Any:
    wide = _wide(value.dtype)
    return value if wide == value.dtype else jnp.asarray(value, wide)


def _as_declared(value: Any, aval: Any) -> Any:
    """Return a value in the dtype that it has in the code."""
    dtype = getattr(aval, "dtype", None)
    return value if dtype is None or dtype == value.dtype else jnp.asarray(value, dtype)


def _keeps_all_digits(equation: Any) -> bool:
    """Whether a rounding leaves all digits of the operand's own dtype, as those do that JAX adds for checkpoints."""
    (operand,), params = equation.invars, equation.params
    limits = jnp.finfo(operand.aval.dtype)  # type: ignore[no-untyped-call]
    return bool(params["exponent_bits"] >= limits.nexp and params["mantissa_bits"] >= limits.nmant)
