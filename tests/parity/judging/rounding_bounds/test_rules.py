"""The rule of each op, on all cases of the op table: float32 stays within the bounds, half precision doesn't."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cellbridge.parity.judging.rounding_bounds.analysis import analyse
from cellbridge.parity.judging.rounding_bounds.estimates import Estimate, Units
from cellbridge.parity.judging.rounding_bounds.rules import RULES, elementwise
from cellbridge.parity.judging.rounding_bounds.sums import bilinear
from cellbridge.runtime import ops
from cellbridge.runtime.ir.program import Program
from cellbridge.runtime.ir.types import is_floating
from cellbridge.runtime.programs.gradient_program import differentiate
from cellbridge.runtime.programs.interpreter import execute
from tests.runtime.ops.cases import OpCase
from tests.runtime.ops.checks import inputs_of, one_node_program

Array = np.ndarray[Any, Any]

TABLE = Path(__file__).parents[3] / "runtime/ops"
CASES: list[OpCase] = [
    case
    for path in sorted(TABLE.glob("cases_*.py"))
    for case in importlib.import_module(f"tests.runtime.ops.{path.stem}").CASES
    if case.op in RULES
    and all(x is None or x.dtype.kind == "b" or (x.dtype.kind != "c" and x.ndim) for x in case.inputs)
]
HALF = 2.0**-11
JUMPS = {"atan2", "ceil", "floor", "floor_divide", "fmod", "remainder", "round", "sign", "trunc"}
FLOAT32 = Units.of("float32")


def _rounded(arrays: list[Array | None]) -> list[Array]:
    """The operands, with numbers that float32 holds exactly."""
    present = [x for x in arrays if x is not None]
    return [x.astype(np.float32).astype(np.float64) if x.dtype == np.float64 else x for x in present]


def _in_float32(arrays: list[Array]) -> list[Array]:
    return [x.astype(np.float32) if x.dtype == np.float64 else x for x in arrays]


def _require_within(estimates: list[Estimate], computed: list[Array], largest_bound: float = HALF) -> None:
    """Require that float32 is within each bound, and that no bound is as large as the error of half precision.

    The model is that of random errors, so a few are up to twice as large; a unit in the last place of the largest
    element is within every bar.
    """
    for (value, bound), narrow in zip(estimates, computed, strict=True):
        if bound is None:
            continue
        finite = np.isfinite(bound) & np.isfinite(value) & np.isfinite(narrow)
        off = np.abs(narrow.astype(np.float64)[finite] - value[finite])
        largest = np.abs(value[finite]).max(initial=0.0)
        float32 = np.finfo(np.float32)
        assert (off <= 2 * bound[finite] + float32.eps * largest + float32.tiny).all()
        assert bound[finite].max(initial=0.0) <= largest_bound * max(largest, 1.0)


def test_every_rule_has_an_op_and_a_case() -> None:
    assert RULES.keys() == {case.op for case in CASES}
    assert all(ops.get(name) for name in RULES)


@pytest.mark.every(2)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_float32_is_within_the_bound(case: OpCase) -> None:
    program = one_node_program(case, np.float64)
    inputs = _rounded(inputs_of(case, np.float64))
    estimates = analyse(program, inputs, program.outputs, FLOAT32)
    computed = execute(program.astype("float32"), _in_float32(inputs))
    _require_within(estimates, computed, np.inf if case.op in JUMPS else HALF)


@pytest.mark.every(2)
@pytest.mark.parametrize("case", [case for case in CASES if case.differentiable], ids=str)
def test_gradients_in_float32_are_within_the_bound(case: OpCase) -> None:
    program = one_node_program(case, np.float64)
    inputs = _rounded(inputs_of(case, np.float64))
    gradient = differentiate(program)
    input_gradients = [value for value in gradient.input_gradients if value is not None]
    seeds = _seeds(program, inputs)
    estimates = analyse(gradient.program, [*inputs, *seeds], input_gradients, FLOAT32)
    ill_conditioned = str(case) == "logsumexp-large"  # the exponential of the difference of two large numbers
    backward = differentiate(program.astype("float32"))
    narrow_gradients = [value for value in backward.input_gradients if value is not None]
    computed = execute(backward.program, _in_float32([*inputs, *seeds]), wanted=narrow_gradients)
    _require_within(estimates, computed, np.inf if ill_conditioned else HALF)


def _seeds(program: Program, inputs: list[Array]) -> list[Array]:
    generator = np.random.default_rng(0)
    outputs = [y for y in execute(program, inputs) if is_floating(y.dtype)]
    return [np.asarray(generator.standard_normal(y.shape)).astype(np.float32).astype(y.dtype) for y in outputs]


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [c for c in CASES if RULES.get(c.op) in (elementwise, bilinear) or c.op in ("layer_norm", "softmax")],
    ids=str,
)
def test_a_bound_of_an_operand_is_passed_on(case: OpCase) -> None:
    """Operands that float32 doesn't hold are off by up to half a unit in the last place: so are results."""
    program = one_node_program(case, np.float64)
    inputs = [x * (1 + 2.0**-26) if x.dtype == np.float64 else x for x in _rounded(inputs_of(case, np.float64))]
    estimates = analyse(program, inputs, program.outputs, FLOAT32)
    computed = execute(program.astype("float32"), _in_float32(inputs))
    _require_within(estimates, computed, np.inf if case.op in JUMPS else HALF)
