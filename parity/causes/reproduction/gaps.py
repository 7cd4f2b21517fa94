"""How far the two programs of a case are apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ....converter.onnx_out.export import to_onnx
from ....runtime.compiled.session import run_model
from ....runtime.errors import ConversionError
from ....runtime.ir.program import Program
from ....runtime.ir.types import FLOAT32, FLOAT64, is_floating
from ....runtime.programs.gradient_program import differentiate
from ....runtime.programs.interpreter import execute
from ...dtypes import cast_floating
from ...sides.records import Array
from .case import BUFFER, CONSTANT, WEIGHT, Case, Tensor, with_stored

SMALLEST_SCALE = 1e-6
"""A result is judged as if it were at least this large, relative to the largest tensor: what is smaller than that may
be nothing but the rounding of larger numbers that cancel."""


@dataclass(frozen=True)
class Gap:
    """The largest difference of two results, and the size of the results that it is judged by."""

    difference: float
    scale: float

    @property
    def relative(self) -> float:
        """The difference relative to the size; infinite for results of different shapes."""
        return self.difference / self.scale if np.isfinite(self.difference) else np.inf


class Measure(Protocol):
    """Measures how far the two programs of a case are apart; raises what `INVALID` lists if one can't be run."""

    def __call__(self, case: Case) -> Gap:
        """Return the gap."""


def in_float64(case: Case) -> Gap:
    """Run both programs in float64, and return the gap of their outputs, or of their gradients.

    Raises:
        CellbridgeError: a program can't be run or differentiated.
    """
    results = _gradients if case.gradients else _outputs
    return gap(results(case, case.reference), results(case, case.candidate), case)


def gap(expected: list[Array], results: list[Array], case: Case) -> Gap:
    """Return the gap of results: the largest difference in any of them, and the largest number in all."""
    largest = max((_size(tensor.data) for tensor in case.tensors.values()), default=1.0)
    scale = max([SMALLEST_SCALE * largest, *map(_size, expected), *map(_size, results)])
    return Gap(max(map(difference, expected, results), default=0.0), scale or 1.0)


def difference(a: Array, b: Array) -> float:
    """Return the largest difference of two arrays; infinite if their shapes differ or only one has a NaN there."""
    if a.shape != b.shape:
        return np.inf
    first, second = a.astype(np.float64), b.astype(np.float64)
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    with np.errstate(invalid="ignore"):
        apart = np.where(same, 0.0, np.abs(first - second))
    return float(np.nan_to_num(apart, nan=np.inf, posinf=np.inf).max(initial=0.0))


def _size(array: Array) -> float:
    finite = np.abs(array[np.isfinite(array)]) if is_floating(array.dtype) else np.zeros(0)
    return float(finite.max(initial=0.0))


def _outputs(case: Case, program: Program) -> list[Array]:
    return execute(program, case.arrays(program))


def _gradients(case: Case, program: Program) -> list[Array]:
    """Return the gradients of the leaves; zeros where none arrives."""
    gradient = differentiate(program)
    shape = program.outputs[0].type.sizes
    if shape is None:
        raise ConversionError("the size of its output is known only when it runs")
    arrays = case.arrays(program)
    values = [value for value in gradient.input_gradients if value is not None]
    results = execute(gradient.program, [*arrays, case.cotangent(shape)], wanted=values)
    by_value = dict(zip(values, results, strict=True))
    by_name = {
        value.name: np.zeros(array.shape) if arriving is None else by_value[arriving]
        for value, array, arriving in zip(program.inputs, arrays, gradient.input_gradients, strict=True)
    }
    return [by_name[name] for name in case.leaves()]


# ---- ONNX Runtime ----

ROUNDINGS = 30.0
"""ONNX Runtime's error is no rounding if it is this many times the error of the reference in float32, ..."""
LEAST_ERROR = 1e-5
"""... and at least this large, relative to the result."""


def in_float32(case: Case) -> Case:
    """Return the case with tensors that float32 holds."""
    rounded = {
        name: Tensor(cast_floating(cast_floating(tensor.data, FLOAT32), FLOAT64), tensor.origin)
        for name, tensor in case.tensors.items()
    }
    return Case(case.reference, case.candidate, rounded, case.gradients)


def onnx_program(case: Case) -> Program:
    """Return the candidate in float32, with its weights inside, as it is written to ONNX."""
    return with_stored(case.candidate, case, WEIGHT + BUFFER + CONSTANT, "float32")


def in_onnxruntime(case: Case) -> Gap:
    """Run the candidate in ONNX Runtime in float32, and return its gap from the reference in float64.

    A gap that rounding explains is none.

    Raises:
        CellbridgeError: a program can't be run or written.
    """
    if case.gradients:
        raise ConversionError("ONNX Runtime computes no gradients")
    case = in_float32(case)
    program = onnx_program(case)
    inputs = {value.name: case.tensors[value.name].data.astype(value.dtype) for value in program.inputs}
    model = to_onnx(program)
    input_names = {value.name for value in model.graph.input}
    (output,) = run_model(model, {name: array for name, array in inputs.items() if name in input_names}).values()
    measured = gap(_outputs(case, case.reference), [output], case)
    return measured if measured.difference > rounding_bar(case) else Gap(0.0, measured.scale)


def rounding_bar(case: Case) -> float:
    """Return the largest difference from the reference in float64 that rounding to float32 explains."""
    case = in_float32(case)
    (truth,) = _outputs(case, case.reference)
    arrays = [cast_floating(array, FLOAT32) for array in case.arrays(case.reference)]
    rounded = execute(case.reference.astype("float32"), arrays)[0]
    return max(ROUNDINGS * difference(truth, rounded), LEAST_ERROR * gap([truth], [truth], case).scale)
