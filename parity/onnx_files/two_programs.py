"""Two ONNX files that could be read, compared on any inputs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...runtime.errors import CellbridgeError, UsageError
from ...runtime.ir.program import Program
from ...runtime.ir.types import as_dtype, is_floating
from ..comparison.trial import judged
from ..inputs.onnx_inputs import Declared, generated_inputs
from ..inputs.onnx_reading import in_order_of
from ..inputs.sizes import described, other_sizes
from ..options import Options
from ..report.report import Report
from ..results.comparison import FAIL, Comparison
from ..sides.interpreter_side import InterpreterSide
from ..sides.onnxruntime_side import OnnxModelSide
from ..sides.records import Array, Capabilities, Records, Run
from ..sides.rounded_numbers import weights_of_one
from ..support.progress import Progress

TINY = 2e-7  # numbers that converters to half precision make larger, so that they don't vanish


@dataclass(frozen=True)
class TwoPrograms:
    """Two files and the programs read from them, ready to be compared on any inputs."""

    reference: str
    candidate: str
    inputs: Declared
    first: Program
    second: Program
    alike: bool
    rounding_only: bool
    options: Options
    runtime_dtype: str
    progress: Progress
    with_runtime: bool = True

    def judged(self, arrays: list[Array]) -> Report:
        """The candidate held against the reference."""
        others = self.inputs.arguments(paired(self.first, self.second, arrays))
        reference, side = self._reference_side(arrays), self._side(arrays)
        if not self.alike or self.rounding_only:
            checks = tuple(
                check for check in side.capabilities.checks if not self.rounding_only or check[0] == "rounding"
            )
            side.capabilities = Capabilities(checks, cells=self.alike)
        if self.rounding_only:
            side.program = _with_weights_of(self.first, self.second)
        if not self.with_runtime:
            return judged(reference, [side], self.options, self.progress, rounded=[reference, side])
        name, dtype, provider = f"{self.candidate} in onnxruntime", self.runtime_dtype, self.options.provider
        kind = _InHalf if self.rounding_only else OnnxModelSide
        runtime = kind(name, self.candidate, others, {}, dtype=dtype, provider=provider)
        return judged(reference, [side, runtime], self.options, self.progress, rounded=[reference, side])

    def judge_at_other_sizes(self, report: Report, arrays: list[Array]) -> None:
        """Where there are dynamic dimensions, judge at other sizes too, and add that to the report."""
        for sizes in other_sizes(self.first, arrays, None, [self.second]):
            label = described(sizes)
            resized = generated_inputs(self.first, self.options.seed, sizes)
            forward = Run("float64", grads=False)
            try:
                self._reference_side(resized).run(forward)
            except CellbridgeError as error:
                report.notes.append(f"not compared at {label}: {error}".partition("\n")[0])
                continue
            try:
                self._side(resized).run(forward)
            except CellbridgeError as error:
                reason = f"doesn't run where {self.reference} does: {error}".partition("\n")[0]
                failed = Comparison(self.candidate, "meaning", "end to end", "call", "", 0, FAIL, reason, sizes=label)
                report.sizes.append(label)
                report.cells[""].comparisons.append(failed)
                continue
            try:
                report.join_sizes(self.judged(resized), label)
            except UsageError as error:  # results of no element, say, or that aren't finite
                report.notes.append(f"not compared at {label}: {error}".partition("\n")[0])

    def _reference_side(self, arrays: list[Array]) -> InterpreterSide:
        return self._interpreted(self.reference, self.first, arrays, self.second)

    def _side(self, arrays: list[Array]) -> InterpreterSide:
        return self._interpreted(self.candidate, self.second, paired(self.first, self.second, arrays), self.first)

    def _interpreted(self, name: str, program: Program, args: list[Array], other: Program) -> InterpreterSide:
        dtype, seed = self.options.dtype, self.options.seed
        rounded = () if self.alike else weights_of_one(program, other)
        return InterpreterSide(name, program, tuple(args), {}, working_dtype=dtype, seed=seed, rounded=rounded)


class _InHalf(OnnxModelSide):
    """A file that is compared in half precision, whatever its outputs are in."""

    def run(self, run: Run) -> Records:
        """Run once; see `OnnxModelSide`."""
        records = super().run(run)
        for key, array in records.values.items():
            if is_floating(array.dtype):
                records.values[key] = array.astype(as_dtype(self.capabilities.checks[0][1]))
        return records


def _with_weights_of(first: Program, second: Program) -> Program:
    """`second` with the parameters of `first` where they are the same but for what converters make of tiny numbers."""
    parameters = dict(second.parameters)
    for name, parameter in parameters.items():
        known = first.parameters.get(name)
        if known is None or known.data.shape != parameter.data.shape:
            continue
        apart = np.abs(known.data.astype(np.float64) - parameter.data.astype(np.float64)).max(initial=0.0)
        if apart <= TINY:
            parameters[name] = replace(parameter, data=known.data)
    return second.replace(parameters=parameters)


def paired(first: Program, second: Program, arrays: list[Array]) -> list[Array]:
    """The same inputs in the order of another program."""
    return in_order_of(list(second.inputs), list(first.inputs), arrays)
