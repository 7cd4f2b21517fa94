"""Two ONNX files read as programs, compared on any inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from onnx import ModelProto

from ....runtime import tree
from ....runtime.ir.program import Program
from ....runtime.ir.types import as_dtype, is_floating
from ....runtime.programs.call import as_array
from ...inputs.onnx_inputs import DeclaredInputs, generate_inputs
from ...inputs.onnx_reading import reorder
from ...inputs.sizes import format_sizes, other_sizes
from ...judging.judging import judge_sides
from ...options import Options
from ...report.report import Report
from ...sides.interpreter_side import InterpreterSide
from ...sides.onnxruntime_side import OnnxModelSide
from ...sides.parameter_users import shared_parameters_of
from ...sides.records import Array, Records
from ...sides.rounded_numbers import weights_of_one
from ...sides.run import FORWARD, Run
from ...sides.side import Capabilities, native_checks
from ...support.progress import Progress
from ..other_sizes import judge_at

TINY = 2e-7  # tiny numbers that converters to half precision enlarge so that they don't underflow


@dataclass(frozen=True)
class TwoPrograms:
    """Two files and the programs read from them, to be compared on any inputs.

    ONNX Runtime runs the `source` of the candidate: the file, or a model derived from it.
    """

    reference: str
    candidate: str
    source: ModelProto | str
    inputs: DeclaredInputs
    first: Program
    second: Program
    alike: bool
    rounding_only: bool
    options: Options
    runtime_dtype: str
    progress: Progress
    with_runtime: bool = True

    def judge_inputs(self, arrays: list[Array]) -> Report:
        """Compare the candidate with the reference on these inputs."""
        others = self.inputs.arguments(reorder_inputs(self.first, self.second, arrays))
        reference, side = self._reference_side(arrays), self._side(arrays)
        if not self.with_runtime:
            return judge_sides(reference, [side], self.options, self.progress, rounded=[reference, side])
        name, dtype, provider = f"{self.candidate} in onnxruntime", self.runtime_dtype, self.options.provider
        kind = _InHalf if self.rounding_only else OnnxModelSide
        runtime = kind(
            name, self.source, others, {}, dtype=dtype, provider=provider,
            arrange=lambda *arguments: self.inputs.arguments(self._arrange(*arguments)),
        )  # fmt: skip
        return judge_sides(reference, [side, runtime], self.options, self.progress, rounded=[reference, side])

    def judge_at_other_sizes(self, report: Report, arrays: list[Array]) -> None:
        """If there are dynamic dimensions, judge at other sizes too, and add the results to the report."""
        resized_files = replace(self, options=replace(self.options, probe=False))
        for sizes in other_sizes(self.first, arrays, None, [self.second]):
            resized, forward = generate_inputs(self.first, self.options.seed, sizes), Run("float64", FORWARD)
            sides = self._reference_side(resized), self._side(resized)
            judge_at(
                report, format_sizes(sizes), partial(resized_files.judge_inputs, resized),
                (partial(sides[0].run, forward), partial(sides[1].run, forward)), (self.reference, self.candidate),
            )  # fmt: skip

    def _reference_side(self, arrays: list[Array]) -> InterpreterSide:
        return InterpreterSide(self.reference, self.first, tuple(arrays), {}, **self._how(self.first, self.second))

    def _side(self, arrays: list[Array]) -> InterpreterSide:
        args = tuple(reorder_inputs(self.first, self.second, arrays))
        how = self._how(self.second, self.first) | {"arrange": self._arrange}
        if self.alike and not self.rounding_only:
            return InterpreterSide(self.candidate, self.second, args, {}, **how)
        program = _with_weights_of(self.first, self.second) if self.rounding_only else self.second
        cells: Literal["own", "none"] = "own" if self.alike else "none"
        return _Unlike(self.candidate, program, args, {}, cells=cells, rounding_only=self.rounding_only, **how)

    def _how(self, program: Program, other: Program) -> dict[str, Any]:
        """The settings of the side of a program that is compared with another one."""
        # a file doesn't say which Cells own a constant that several use, such as a table of positions
        shared = shared_parameters_of(program) | shared_parameters_of(other) if self.alike else ()
        rounded = () if self.alike else weights_of_one(program, other)
        return {
            "working_dtype": self.options.dtype, "seed": self.options.seed, "rounded": rounded, "shared": shared
        }  # fmt: skip

    def _arrange(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Array]:
        """Return the candidate's inputs, from arguments of the reference."""
        arrays = [as_array(leaf) for leaf in tree.match_call(self.first.arguments, args, kwargs)]
        return reorder_inputs(self.first, self.second, arrays)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class _Unlike(InterpreterSide):
    """A program whose Cells or dtypes aren't the reference's.

    Attributes:
        cells: "none" if it is compared at its outputs alone.
        rounding_only: whether it isn't compared in float64.
    """

    cells: Literal["own", "none"]
    rounding_only: bool

    @property
    def capabilities(self) -> Capabilities:
        """Those that are left."""
        checks = native_checks(self.working_dtype)
        return Capabilities(
            tuple(check for check in checks if check[0] == "rounding" or not self.rounding_only), cells=self.cells
        )


@dataclass(frozen=True, eq=False, repr=False)
class _InHalf(OnnxModelSide):
    """A file that is compared in half precision, whatever the dtype of its outputs."""

    def run(self, run: Run) -> Records:
        """Run once; see `OnnxModelSide`."""
        records = super().run(run)
        for key, array in records.values.items():
            if is_floating(array.dtype):
                records.values[key] = array.astype(as_dtype(self.capabilities.checks[0][1]))
        return records


def _with_weights_of(first: Program, second: Program) -> Program:
    """Return `second` with the parameters of `first`, where only tiny numbers that converters enlarge differ."""
    parameters = dict(second.parameters)
    for name, parameter in parameters.items():
        counterpart = first.parameters.get(name)
        if counterpart is None or counterpart.data.shape != parameter.data.shape:
            continue
        apart = np.abs(counterpart.data.astype(np.float64) - parameter.data.astype(np.float64)).max(initial=0.0)
        if apart <= TINY:
            parameters[name] = replace(parameter, data=counterpart.data)
    return second.replace(parameters=parameters)


def reorder_inputs(first: Program, second: Program, arrays: list[Array]) -> list[Array]:
    """Return the inputs in the order of another program."""
    return reorder(list(second.inputs), list(first.inputs), arrays)
