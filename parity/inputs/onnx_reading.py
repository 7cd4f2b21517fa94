"""ONNX files read as programs if possible, else with the reason."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from onnx import ModelProto

from ...converter.onnx_in.importing import from_onnx
from ...converter.onnx_in.inputs import Shapes, rename_input_shapes
from ...converter.onnx_in.model.protos import NonNumericTensor
from ...runtime.errors import ConversionError, ShapeError, UnsupportedOperators, UsageError
from ...runtime.ir.program import Program
from ...runtime.ir.types import FLOAT32, Value, is_floating
from ...runtime.tree import TENSOR, Structure, positional_arguments
from ..dtypes import HALVES
from ..options import Options
from ..results.notes import warnings_as_notes
from ..sides.records import Array
from .onnx_inputs import DeclaredInputs, runnable_inputs

MAX_REASON_LENGTH = 300  # characters of a reason in a note
MAX_OPERATORS = 4  # operators that a note names


@dataclass(frozen=True)
class OnnxFile:
    """An ONNX file.

    Attributes:
        path: its path.
        program: the program, with positional inputs in the order of the file; None if it can't be read as one.
        error: the reason why it can't be read as a program.
        notes: assumptions of the conversion.
        model: the model that was read in place of the file, if it was derived from it.
    """

    path: str
    program: Program | None
    error: ConversionError | None = None
    notes: tuple[str, ...] = ()
    model: ModelProto | None = None

    @property
    def source(self) -> ModelProto | str:
        """What ONNX Runtime runs: the file, or the model that was read in its place."""
        return self.path if self.model is None else self.model

    @property
    def unknown(self) -> str:
        """The reason why the Cells of an unreadable file are unknown: its operators, or a node."""
        if isinstance(self.error, UnsupportedOperators):
            names = list(dict.fromkeys(name for name, _, _ in self.error.operators))
            others = f" and {len(names) - MAX_OPERATORS} others" if len(names) > MAX_OPERATORS else ""
            return f"{self.path} can't be read as a program, for lack of {', '.join(names[:MAX_OPERATORS])}{others}"
        message = str(self.error).partition("\n")[0]
        reason = message if len(message) <= MAX_REASON_LENGTH else f"{message[:MAX_REASON_LENGTH]}..."
        return f"{self.path} can't be read as a program: {reason}"


def read(path: str, shapes: Shapes, model: ModelProto | None = None) -> OnnxFile:
    """Read a file, or a model derived from it, with these shapes of its inputs.

    Raises:
        ConversionError: the model is malformed. If it only can't be expressed as a program, the result has the reason.
        UsageError: the file can't be read, or the shapes don't fit.
    """
    try:
        with warnings_as_notes() as notes:
            program = from_onnx(path if model is None else model, shapes=shapes)
    except ConversionError as error:
        if not _is_inexpressible(error):
            raise
        return OnnxFile(path, None, error, model=model)
    program = program.replace(arguments=positional_arguments(len(program.inputs)))
    return OnnxFile(path, program, notes=tuple(notes), model=model)


def _is_inexpressible(error: BaseException | None) -> bool:
    """Whether an error is about something that programs lack: operators, strings, sizes that can't be checked."""
    while error is not None:
        if isinstance(error, (UnsupportedOperators, ShapeError, NonNumericTensor)):
            return True
        error = error.__cause__
    return False


def read_with_inputs(
    path: str, declared: DeclaredInputs, inputs: str | None, seed: int, model: ModelProto | None = None
) -> tuple[OnnxFile, list[Array]]:
    """Return a file and inputs that it runs on, at sizes at which it can be read as a program if possible.

    A `model` derived from the file is read in its place.
    """
    unread: list[tuple[OnnxFile, list[Array]]] = []
    for arrays in runnable_inputs(path, declared, inputs, seed):
        file = read(path, declared.shapes(arrays), model)
        if file.program is not None:
            return file, arrays
        unread.append((file, arrays))
        if isinstance(file.error, UnsupportedOperators):  # the same at any size
            break
    return unread[0]


def with_named_outputs(program: Program, names: Sequence[str]) -> Program:
    """Return the program with a dict of its outputs by these names as its result."""
    return program.replace(result=Structure("dict", (TENSOR,) * len(names), tuple(names)))


def require_as_many(first: Sequence[Any], second: Sequence[Any]) -> None:
    """Raise `UsageError` for two files with different numbers of inputs."""
    if len(first) != len(second):
        raise UsageError(f"the models take {len(first)} and {len(second)} inputs: they can't be compared")


def reorder(other_inputs: Sequence[Value], inputs: Sequence[Value], arrays: list[Array]) -> list[Array]:
    """Return arrays for `inputs` in the order of `other_inputs`, by name if the names are equal, else by position."""
    require_as_many(inputs, other_inputs)
    by_name = {value.name: array for value, array in zip(inputs, arrays, strict=True)}
    return [by_name[value.name] for value in other_inputs] if {v.name for v in other_inputs} == set(by_name) else arrays


def rename_shapes(other_names: Sequence[str], names: Sequence[str], shapes: Shapes) -> Shapes:
    """Return shapes by `names`, those of inputs, as shapes by `other_names`."""
    return (
        shapes
        if set(other_names) == set(names)
        else rename_input_shapes(shapes, dict(zip(names, other_names, strict=True)))
    )


def require_eval(options: Options) -> None:
    """Raise `UsageError` for train mode, which an ONNX file doesn't have."""
    if options.train:
        raise UsageError("an ONNX model has no train mode: --train is for torch models")


def adapt_options(
    options: Options, program: Program | None, declared: Sequence[Value] = ()
) -> tuple[Options, str, list[str]]:
    """Return the options for a file, the dtype that ONNX Runtime is judged in, and notes.

    A file that computes in half precision is judged in that dtype, unless a dtype other than float32 is requested. One
    that computes in float64 is judged in float64.
    """
    file_dtype = dtype_of(program, declared)
    inputs = declared if program is None else program.inputs
    if file_dtype == "float64" and any(value.dtype == FLOAT32 for value in inputs):  # a part of it computes in float64
        return options, "float32", []
    computed = () if program is None else (value for node in program.nodes for value in node.outputs)
    if file_dtype == "float64" and any(value.dtype == FLOAT32 for value in computed):
        note = "the file computes in float64 and float32: ONNX Runtime was judged by the rounding of float32"
        return replace(options, dtype=file_dtype), "float32", [note]
    if file_dtype == "float64" and options.dtype in ("float32", "float64"):
        return replace(options, dtype=file_dtype), file_dtype, []
    if file_dtype not in HALVES:
        return options, "float32", []
    if options.dtype != "float32":
        return options, file_dtype, []
    return (
        replace(options, dtype=file_dtype),
        file_dtype,
        [f"the file computes in {file_dtype}, in which rounding was judged"],
    )


def dtype_of(program: Program | None, declared: Sequence[Value] = ()) -> str:
    """The dtype of most floating-point numbers of a program, or of declared inputs."""
    sizes: Counter[str] = Counter()
    values = () if program is None else (*program.inputs, *(p.value for p in program.parameters.values()))
    for value in values or declared:
        if is_floating(value.dtype):
            sizes[value.dtype.name] += math.prod(size for size in value.shape if isinstance(size, int))
    ((most_common, _),) = sizes.most_common(1) or [("float32", 0)]
    return most_common
