"""ONNX files read as programs, where they can be; else why not."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from onnx import ModelProto

from ...converter.onnx_in.importing import from_onnx
from ...converter.onnx_in.inputs import Shapes, rename_shapes
from ...converter.onnx_in.model.protos import NonNumericTensor
from ...runtime.errors import ConversionError, ShapeError, UnsupportedOperators, UsageError
from ...runtime.ir.program import Program
from ...runtime.ir.types import Value, is_floating
from ...runtime.tree import TENSOR, Structure, positional
from ..dtypes import HALVES
from ..options import Options
from ..results.notes import warnings_as_notes
from ..sides.records import Array
from .onnx_inputs import Declared, runnable

MAX_REASON_LENGTH = 300  # characters of a reason in a note
SHOWN = 4  # operators that are named in it


@dataclass(frozen=True)
class OnnxFile:
    """A file.

    Attributes:
        path: where it is.
        program: its inputs positional, in the order of the file; None where the file can't be read as one.
        error: why not.
        notes: what was taken to hold.
    """

    path: str
    program: Program | None
    error: ConversionError | None = None
    notes: tuple[str, ...] = ()

    @property
    def unknown(self) -> str:
        """Why nothing is known of the Cells of a file that can't be read: which operators, or which node."""
        if isinstance(self.error, UnsupportedOperators):
            names = list(dict.fromkeys(name for name, _, _ in self.error.operators))
            others = f" and {len(names) - SHOWN} others" if len(names) > SHOWN else ""
            return f"{self.path} can't be read as a program for want of {', '.join(names[:SHOWN])}{others}"
        said = str(self.error).partition("\n")[0]
        reason = said if len(said) <= MAX_REASON_LENGTH else f"{said[:MAX_REASON_LENGTH]}..."
        return f"{self.path} can't be read as a program: {reason}"


def read(path: str, shapes: Shapes, model: ModelProto | None = None) -> OnnxFile:
    """Read a file, with these shapes of its inputs; or a model that was made of it.

    Raises:
        ConversionError: the model is malformed. Where it is only nothing that a program can be, the result says why.
        UsageError: the file can't be read, or the shapes don't fit.
    """
    try:
        with warnings_as_notes() as notes:
            program = from_onnx(path if model is None else model, shapes=shapes)
    except ConversionError as error:
        if not _inexpressible(error):
            raise
        return OnnxFile(path, None, error)
    return OnnxFile(path, program.replace(arguments=positional(len(program.inputs))), notes=tuple(notes))


def _inexpressible(error: BaseException | None) -> bool:
    """Whether an error tells of what there is not here: operators, texts, sizes that can't be told to fit."""
    while error is not None:
        if isinstance(error, (UnsupportedOperators, ShapeError, NonNumericTensor)):
            return True
        error = error.__cause__
    return False


def read_with_inputs(path: str, declared: Declared, inputs: str | None, seed: int) -> tuple[OnnxFile, list[Array]]:
    """A file and inputs that it runs on, at sizes at which it can be read as a program if there are any."""
    unread: list[tuple[OnnxFile, list[Array]]] = []
    for arrays in runnable(path, declared, inputs, seed):
        file = read(path, declared.shapes(arrays))
        if file.program is not None:
            return file, arrays
        unread.append((file, arrays))
        if isinstance(file.error, UnsupportedOperators):  # at any size
            break
    return unread[0]


def returning(program: Program, names: Sequence[str]) -> Program:
    """The program that returns a dict of its outputs by these names."""
    return program.replace(result=Structure("dict", (TENSOR,) * len(names), tuple(names)))


def require_as_many(first: Sequence[Any], second: Sequence[Any]) -> None:
    """Raise `UsageError` for two files that take other numbers of inputs."""
    if len(first) != len(second):
        raise UsageError(f"the models take {len(first)} and {len(second)} inputs: they can't be compared")


def in_order_of(theirs: Sequence[Value], ours: Sequence[Value], arrays: list[Array]) -> list[Array]:
    """Arrays for our inputs in the order of theirs: by name, else by position."""
    require_as_many(ours, theirs)
    by_name = {value.name: array for value, array in zip(ours, arrays, strict=True)}
    return [by_name[value.name] for value in theirs] if {v.name for v in theirs} == set(by_name) else arrays


def named_as(theirs: Sequence[str], ours: Sequence[str], shapes: Shapes) -> Shapes:
    """Shapes by the names of our inputs as shapes by the names of theirs."""
    return shapes if set(theirs) == set(ours) else rename_shapes(shapes, dict(zip(ours, theirs, strict=True)))


def require_eval(options: Options) -> None:
    """Raise `UsageError` for train mode, which an ONNX file hasn't."""
    if options.train:
        raise UsageError("an ONNX model is compared as it is: --train is for torch models")


def suited(options: Options, program: Program | None, declared: Sequence[Value] = ()) -> tuple[Options, str, list[str]]:
    """The options for a file, the dtype that ONNX Runtime is judged in, and notes.

    What a file computes in half precision is judged in that, where no other dtype than float32 is asked for.
    """
    own = dtype_of(program, declared)
    if own not in HALVES:
        return options, "float32", []
    if options.dtype != "float32":
        return options, own, []
    return replace(options, dtype=own), own, [f"the file computes in {own}, which is what rounding was judged in"]


def dtype_of(program: Program | None, declared: Sequence[Value] = ()) -> str:
    """The dtype that most floating-point numbers of a program have, or of declared inputs."""
    sizes: Counter[str] = Counter()
    known = () if program is None else (*program.inputs, *(p.value for p in program.parameters.values()))
    for value in known or declared:
        if is_floating(value.dtype):
            sizes[value.dtype.name] += math.prod(size for size in value.shape if isinstance(size, int))
    ((own, _),) = sizes.most_common(1) or [("float32", 0)]
    return own
