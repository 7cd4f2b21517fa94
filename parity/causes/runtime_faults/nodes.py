"""The first node that ONNX Runtime computes wrongly, of the graph as it has optimized it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from ....converter.onnx_in.importing import from_onnx
from ....runtime.errors import CellbridgeError
from ....runtime.ir.types import is_floating
from ....runtime.programs.interpreter import execute
from ...dtypes import cast_floating
from ...sides.onnx_models import copy_of
from ...sides.records import Array
from ...verdicts.deviations import size
from ...verdicts.judge import epsilon
from .experiment import NOT_OPTIMIZED, Expected, Experiment, Settings

FACTOR = 10.0
"""The largest error of a right node, in units of what the interpreter's own rounding causes."""


@dataclass(frozen=True)
class WrongNode:
    """A node of the optimized graph.

    Attributes:
        op: its operator, with the domain unless it is ONNX's own.
        name: its name; empty if it has none.
        output: name of the output that is wrong.
        error: error of that output, relative to its largest element.
    """

    op: str
    name: str
    output: str
    error: float


@dataclass(frozen=True)
class Values:
    """The values of the model in the interpreter, by name: in float64, and in the model's own dtypes."""

    exact: Mapping[str, Array]
    rounded: Mapping[str, Array]

    def expected(self, name: str) -> Expected:
        """What a right node computes, up to rounding."""
        exact, rounded = self.exact[name], self.rounded[name]
        if not is_floating(rounded.dtype):
            return Expected(exact, 0.0)
        noise = float(np.abs(rounded.astype(np.float64) - exact).max(initial=0.0))
        return Expected(exact, FACTOR * max(noise, epsilon(rounded.dtype.name) * size(exact)))


def interpret(experiment: Experiment, names: list[str]) -> Values | None:
    """Return values of the model in the interpreter; None if it is too large, or can't be read as a program."""
    model = copy_of(experiment.model.model)
    return None if model is None else _interpret(model, experiment, names)


def first_wrong_node(experiment: Experiment) -> WrongNode | None:
    """Return the first node of the optimized graph whose result differs from the interpreter's in float64.

    A value of the optimized graph is compared with the one of the same name in the model. None if the model is too
    large, can't be read as a program, or isn't wrong in the form in which ONNX Runtime writes it.

    Raises:
        BudgetSpentError: the time for the search is over.
    """
    original = copy_of(experiment.model.model)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "optimized.onnx"
        if original is None or not experiment.save_optimized(path):
            return None
        optimized = onnx.load(path)
    known = {name for node in original.graph.node for name in node.output if name}
    names = [name for node in optimized.graph.node for name in node.output if name in known]
    values = _interpret(original, experiment, names)
    if values is None:
        return None
    results = experiment.run(_with_outputs(optimized, names), names, Settings(level=NOT_OPTIMIZED))
    if results is None or all(e.ratio(results.get(name)) <= 1 for name, e in experiment.expected.items()):
        return None
    for node in optimized.graph.node:
        for name in node.output:
            if name in results and values.exact[name].shape == results[name].shape:
                expected = values.expected(name)
                if expected.ratio(results[name]) > 1:
                    op = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
                    return WrongNode(op, node.name, name, expected.relative(results[name]))
    return None


def _interpret(model: onnx.ModelProto, experiment: Experiment, names: list[str]) -> Values | None:
    """Return values of a model in the interpreter; None if it can't be read as a program."""
    inputs = experiment.model.inputs
    arrays = [inputs[value.name] for value in model.graph.input if value.name in inputs]
    if not all(isinstance(array, np.ndarray) for array in arrays):
        return None
    try:
        program = from_onnx(_with_outputs(model, names, only=True))
        runs = []
        for variant in (program.astype("float64"), program):
            given = [cast_floating(np.asarray(x), v.dtype) for x, v in zip(arrays, variant.inputs, strict=True)]
            runs.append(dict(zip(names, execute(variant, given), strict=True)))
    except CellbridgeError:
        return None
    return Values(*runs)


def _with_outputs(model: onnx.ModelProto, names: list[str], only: bool = False) -> onnx.ModelProto:
    """Return a copy of a model that also, or only, returns the values of these names."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    known = {value.name: value for value in (*copy.graph.value_info, *copy.graph.output)}
    present = set() if only else {value.name for value in copy.graph.output}
    added = [known.get(name, onnx.ValueInfoProto(name=name)) for name in names if name not in present]
    if only:
        del copy.graph.output[:]
    copy.graph.output.extend(added)
    return copy
