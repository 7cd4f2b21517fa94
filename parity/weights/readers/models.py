"""The parameters of saved networks: ONNX models (IR version 3 or newer) with external data, and programs (`.cell`)."""

from __future__ import annotations

from pathlib import Path

from ....converter.onnx_in.importing import read_model
from ....converter.onnx_in.model.protos import NonNumericTensor, array_of
from ....runtime.errors import ConversionError, ProgramError, UsageError
from ....runtime.storage.programs import load
from ....runtime.visible import visible_name
from .tensor import StoredCheckpoint, StoredTensor, stored_array


def read_onnx(path: str) -> StoredCheckpoint:
    """Read the initializers of an ONNX model.

    Raises:
        UsageError: the file is damaged, or external data isn't in its folder.
    """
    tensors: dict[str, StoredTensor] = {}
    skipped: list[str] = []
    try:
        for initializer in read_model(path).graph.initializer:
            try:
                array = array_of(initializer, Path(path).parent, visible_name(initializer.name))
            except NonNumericTensor:
                skipped.append(f"{visible_name(initializer.name)} (texts)")
                continue
            tensors[initializer.name] = stored_array(initializer.name, array)
    except ConversionError as error:
        raise UsageError(f"can't read {path}: {error}") from error
    if not tensors:
        raise UsageError(f"{path} has no initializers")
    return StoredCheckpoint(path, "ONNX", tensors, tuple(skipped))


def read_program(path: str) -> StoredCheckpoint:
    """Read the parameters and buffers of a saved program.

    Raises:
        UsageError: the file is damaged, or has no parameters.
    """
    try:
        program = load(path)
    except ProgramError as error:
        raise UsageError(f"can't read {path}: {error}") from error
    arrays = {name: parameter.data for name, parameter in program.parameters.items()}
    arrays |= {name: buffer.data for name, buffer in program.buffers.items() if name not in arrays}
    if not arrays:
        raise UsageError(f"{path} has no parameters")
    return StoredCheckpoint(path, "a program", {name: stored_array(name, array) for name, array in arrays.items()})
