"""`take_snapshot`: a module is run, and sketches of what it computes are kept: a few numbers on each tensor."""

from __future__ import annotations

import ast
import hashlib
import inspect
import math
import textwrap
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ....converter.capture.wrappers import unwrap_arguments
from ....converter.exclusive import one_at_a_time
from ....recorder import as_stored
from ....runtime.ir.types import as_dtype, is_floating
from ...dtypes import WORKING_DTYPES, cast_floating
from ...options import Options
from ...sides.exported_side import ExportedSide
from ...sides.names import ONNXRUNTIME
from ...sides.opening import require_module
from ...sides.records import INPUT, Array, Records
from ...sides.reported_cells import require_finite
from ...sides.run import FORWARD, ReferenceRun, Run
from ...sides.torch_program import capture_program
from ...sides.torch_side import TorchSide
from ...verdicts.judge import epsilon
from ..recording.write import record_calls, record_parameters, record_run
from .contents import ELEMENTS, PROJECTIONS, SKETCH_SIZE, TORCH, Boundary, CellParts, Snapshot, Tensor


@one_at_a_time
@unwrap_arguments
def take_snapshot(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], options: Options
) -> Snapshot:
    """Run a module in float64 and in the working dtype, forward and backward, and keep sketches of what it computes.

    Raises:
        UsageError: the inputs don't fit the module, or a value isn't finite.
    """
    require_module(module, "is locked")
    side = TorchSide.of_options("torch", module, args, kwargs, options)
    snapshot = Snapshot(options.model, options.dtype, options.train, options.seed, options.grads)
    first: Records | None = None
    for dtype in dict.fromkeys(["float64", options.dtype]):
        writer = _SketchWriter(snapshot, dtype)
        record_parameters(writer, side.parameters(), options)
        records = record_run(writer, side, dtype, options, first)
        require_finite(records, dtype)
        first = first or records
    _add_parts(snapshot, side, module)
    return snapshot


@one_at_a_time
@unwrap_arguments
def take_runtime_snapshot(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], options: Options
) -> Snapshot:
    """Run a module in float64, and what it is exported to in ONNX Runtime, forward; keep sketches of what both compute.

    Raises:
        UsageError: the inputs don't fit the module, or a value isn't finite.
        ConversionError: the module can't be exported.
    """
    require_module(module, "is locked")
    forward = replace(options, grads=False)
    side = TorchSide.of_options(TORCH, module, args, kwargs, forward)
    snapshot = Snapshot(options.model, options.dtype, options.train, options.seed, grads=False, side=ONNXRUNTIME)
    truth = side.run(Run("float64", FORWARD))
    require_finite(truth, "float64")
    program = capture_program(module, args, dict(kwargs), None, options.dtype, options.train)
    dtype = WORKING_DTYPES[options.dtype].onnxruntime
    exported = ExportedSide(ONNXRUNTIME, program, args, kwargs, working_dtype=options.dtype, provider=options.provider)
    # each Cell gets the values that it had in float64
    records = exported.run(Run(dtype, FORWARD, ReferenceRun.of(truth), truth))
    require_finite(records, dtype)
    inputs = {key: cast_floating(x, as_dtype(dtype)) for key, x in truth.values.items() if key.kind == INPUT}
    for run, values in (("float64", truth.values), (options.dtype, inputs | records.values)):
        writer = _SketchWriter(snapshot, run)
        record_calls(writer, truth.calls)
        for key, array in values.items():
            writer.add_tensor(key.path, key.call, key.kind, key.slot, array)
    _add_parts(snapshot, side, module)
    return snapshot


class _SketchWriter:
    """Keeps sketches of what a `Recorder` would write."""

    def __init__(self, snapshot: Snapshot, run: str) -> None:
        self.snapshot, self.run = snapshot, run

    def add_call(self, path: str, index: int, class_name: str, parent: int | None) -> int:
        self.snapshot.calls.append(
            {"run": self.run, "cell": path, "index": index, "class": class_name, "parent": parent}
        )
        return len(self.snapshot.calls) - 1

    def add_tensor(self, path: str, index: int, role: str, slot: str, tensor: Any) -> None:
        array, dtype, _ = as_stored(tensor)
        numbers = np.asarray(tensor).astype(np.float32) if dtype == "bfloat16" else array
        digest = bits(array)
        if digest not in self.snapshot.sketches:
            short = numbers.dtype.kind == "f" and numbers.dtype.itemsize < 8  # with the fewest digits that say it
            numbers = sketch(numbers)
            self.snapshot.sketches[digest] = [float(str(np.float32(x))) for x in numbers] if short else numbers.tolist()
        boundary = Boundary(self.run, path, index, role, slot)
        self.snapshot.tensors[boundary] = Tensor(dtype, tuple(np.shape(tensor)), digest)

    def add_absent(self, path: str, index: int, slot: str, shape: tuple[int, ...]) -> None:
        boundary = Boundary(self.run, path, index, "input_gradient", slot)
        self.snapshot.tensors[boundary] = Tensor("float32", tuple(shape), "")

    def mark_untracked(self, path: str, index: int, role: str, slot: str) -> None:
        boundary = Boundary(self.run, path, index, role, slot)
        if boundary in self.snapshot.tensors:
            self.snapshot.tensors[boundary] = replace(self.snapshot.tensors[boundary], tracked=False)

    def parameter(self, name: str, value: Any = None, *, gradient: Any = None) -> None:
        self._add_named("parameter", name, value)
        self._add_named("parameter_gradient", name, gradient)

    def buffer(self, name: str, value: Any = None, *, update: Any = None) -> None:
        self._add_named("buffer", name, value)
        self._add_named("buffer_update", name, update)

    def _add_named(self, role: str, name: str, value: Any) -> None:
        if value is not None:
            self.add_tensor("", 0, role, name, value)


def _add_parts(snapshot: Snapshot, side: TorchSide, module: torch.nn.Module) -> None:
    """Add what the Cells are made of."""
    modules, errors = dict(module.named_modules()), _rounding_errors(snapshot)
    for path in dict.fromkeys(call["cell"] for call in snapshot.calls):
        snapshot.cells[path] = replace(_parts(side, path, modules.get(path)), error=errors.get(path))


def _rounding_errors(snapshot: Snapshot) -> dict[str, float]:
    """Return the largest rounding error of the outputs of each Cell; see `CellParts.error`."""
    errors: dict[str, float] = {}
    for boundary, tensor in snapshot.tensors.items():
        truth = snapshot.tensors.get(boundary._replace(run="float64"))
        if (
            boundary.run == "float64"
            or boundary.role != "output"
            or truth is None
            or not is_floating(as_dtype(tensor.dtype))
        ):
            continue
        working, exact = (np.array(snapshot.sketches[value.bits], np.float64) for value in (tensor, truth))
        unit = epsilon(snapshot.dtype) * float(np.abs(exact).max(initial=0.0))
        if unit > 0 and working.shape == exact.shape:
            error = float(np.abs(working - exact).max()) / unit
            errors[boundary.cell] = max(errors.get(boundary.cell, 0.0), error)
    return errors


def _parts(side: TorchSide, path: str, module: torch.nn.Module | None) -> CellParts:
    """Return what a Cell is made of; a Cell that isn't a module has a name alone."""
    if module is None:
        return CellParts("", "", {})
    settings = {name: repr(value)[:200] for name, value in side.settings(path).items()}
    settings.pop("training", None)
    return CellParts(type(module).__name__, _code(type(module)), settings)


def _code(kind: type) -> str:
    """Return a digest of a class's source code, which comments, docstrings and layout don't change."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    except (OSError, TypeError, SyntaxError):
        return ""  # it was written in an interpreter, or in C
    for node in ast.walk(tree):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(node):
            node.body = node.body[1:] or [ast.Pass()]
    return hashlib.sha256(ast.unparse(tree).encode()).hexdigest()[:16]


_BLOCK = 2**20


def sketch(array: Array) -> Array:
    """Return numbers that stand for a tensor: some of its elements, and two random projections.

    A projection is the sum of all elements with random signs, divided by the square root of their number. It is about
    as large as one element, and a change of any element changes it (Alon, Matias and Szegedy, 1996). Elements that
    aren't finite count as 0 there. Elements and signs depend on the number of elements alone.

    Args:
        array: a tensor of any shape.

    Returns:
        For floating-point numbers `float64[8]`; for others `int64[4]`, a checksum.
    """
    flat = np.ascontiguousarray(array).reshape(-1)
    if not is_floating(flat.dtype):
        digest = hashlib.sha256(flat.astype(np.int64).tobytes()).digest()
        return np.frombuffer(digest, "<i8").copy()
    if not flat.size:
        return np.zeros(SKETCH_SIZE)
    elements = flat[places(flat.size)].astype(np.float64)
    random, sums = np.random.default_rng(flat.size), np.zeros(PROJECTIONS)
    for start in range(0, flat.size, _BLOCK):
        block = flat[start : start + _BLOCK].astype(np.float64)
        signs = random.integers(0, 2, size=(PROJECTIONS, block.size), dtype=np.int8) * 2.0 - 1.0
        sums += signs @ np.where(np.isfinite(block), block, 0.0)
    return np.concatenate([elements, sums / math.sqrt(flat.size)])


def places(size: int) -> Array:
    """Return the places of the elements that stand for a tensor of `size` elements, at least 1."""
    return np.random.default_rng(size).integers(size, size=ELEMENTS)


def bits(array: Array) -> str:
    """Return a digest of a tensor's dtype, shape and bits."""
    head = f"{array.dtype.name}{list(array.shape)}".encode()
    return hashlib.sha256(head + np.ascontiguousarray(array).tobytes()).hexdigest()[:16]
