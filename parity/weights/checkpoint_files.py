"""Reading and writing checkpoints: torch's (`.pt`, `.pth`, `.bin`, `.safetensors`) and Cells' (`.ckpt`)."""

from __future__ import annotations

import json
import pickle
import struct
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...converter.dtypes import as_tensor
from ...runtime.errors import ShapeError, UsageError
from ...runtime.memory import check_memory
from ...runtime.programs.call import as_array
from ...runtime.storage.safetensors_bytes import from_bytes, to_bytes
from ...runtime.train.checkpoint_format import decode, encode
from ..support.files import atomic_path, write_bytes
from .arrangements import Array

PICKLED = (".pt", ".pth", ".bin")
SAFETENSORS = ".safetensors"
CELLS = ".ckpt"

_INSIDE = ("state_dict", "model_state_dict", "model")
_RECORD = "from_torch"  # a key of a checkpoint's metadata

# exceptions of torch.load for a damaged file; a pickle may fail in any of these ways
_UNREADABLE = (
    ArithmeticError, AssertionError, AttributeError, EOFError, ImportError, LookupError, MemoryError, OSError,
    pickle.UnpicklingError, RuntimeError, TypeError, ValueError, struct.error, zipfile.BadZipFile,
)  # fmt: skip
_DTYPES = frozenset({
    torch.bool, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32,
    torch.uint64, torch.bfloat16, torch.float16, torch.float32, torch.float64,
})  # fmt: skip


@dataclass
class Checkpoint:
    """The contents of a file.

    Attributes:
        arrays: arrays by name.
        skipped: descriptions of entries that aren't parameters.
        ties: groups of names that share one tensor.
        record: the record written when it was converted from a torch checkpoint; see `write_cells`.
    """

    arrays: dict[str, Array]
    skipped: list[str] = field(default_factory=list)
    ties: list[tuple[str, ...]] = field(default_factory=list)
    record: Mapping[str, Any] = field(default_factory=dict)


def read_checkpoint(path: str) -> Checkpoint:
    """Read a checkpoint by its suffix; raise `UsageError` if it can't be read or holds something else."""
    kind = Path(path).suffix.lower()
    if kind in PICKLED:
        return _read_pickled(path)
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror}") from error
    if not data:
        raise UsageError(f"can't read {path}: the file is empty")
    checkpoint = _read_cells(path, data) if kind == CELLS else _read_safetensors(path, data)
    if not checkpoint.arrays:
        raise UsageError(f"{path} holds no parameters")
    return checkpoint


def _decode(path: str, decoder: Any, data: bytes) -> Any:
    try:
        return decoder(data)
    except ValueError as error:
        raise UsageError(f"can't read {path}: {error}{_what_it_is(path, data)}") from error


def _what_it_is(path: str, data: bytes) -> str:
    if data.startswith(b"PK"):
        return "\nIt looks like a torch checkpoint: give it the suffix .pt"
    if data.startswith(b"version https://git-lfs"):
        return "\nIt is a pointer of Git LFS: fetch the file itself with `git lfs pull`"
    if Path(path).suffix.lower() == CELLS:
        return (
            "\nA checkpoint in MindSpore's own format is read by MindSpore only: save it there with "
            'format="safetensors", and give the file the suffix .ckpt'
        )
    return ""


def _read_cells(path: str, data: bytes) -> Checkpoint:
    items, metadata = _decode(path, decode, data)
    strings = [f"{name} (a string)" for name, value in items.items() if isinstance(value, str)]
    arrays = {name: value for name, value in items.items() if not isinstance(value, str)}
    return Checkpoint(arrays, strings, record=_read_record(path, metadata))


def _read_safetensors(path: str, data: bytes) -> Checkpoint:
    arrays, metadata = _decode(path, from_bytes, data)
    return Checkpoint(arrays, record=_read_record(path, metadata))


def _read_record(path: str, metadata: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the record of the conversion from torch; an empty one if there is none."""
    try:
        record = json.loads(metadata.get(_RECORD, "{}"))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"can't read {path}: its metadata is damaged: {error}") from error
    if not isinstance(record, dict):
        raise UsageError(f"can't read {path}: its metadata is damaged: the record in it is a {type(record).__name__}")
    return record


def _read_pickled(path: str) -> Checkpoint:
    try:
        _require_no_bomb(path)
        with warnings.catch_warnings(action="ignore"):
            loaded = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror or error}") from error
    except _UNREADABLE as error:
        raise UsageError(f"can't read {path}: {_why(error)}") from error
    state, skipped = _state_dict(path, loaded)
    checkpoint = Checkpoint({}, skipped)
    by_place: dict[Any, list[str]] = {}
    for name, tensor in state.items():
        if not isinstance(name, str):
            raise UsageError(f"{path}: a name must be a string, given {name!r}")
        if not isinstance(tensor, torch.Tensor):
            checkpoint.skipped.append(f"{name} ({type(tensor).__name__})")
            continue
        _require_plain(path, name, tensor)
        checkpoint.arrays[name] = as_array(tensor)
        if tensor.numel():
            storage_key = (tensor.untyped_storage().data_ptr(), tensor.storage_offset(), tensor.shape, tensor.stride())
            by_place.setdefault(storage_key, []).append(name)
    if not checkpoint.arrays:
        raise UsageError(f"{path} holds no parameters{': ' * bool(checkpoint.skipped)}{', '.join(checkpoint.skipped)}")
    checkpoint.ties = [tuple(names) for names in by_place.values() if len(names) > 1]
    return checkpoint


def _require_no_bomb(path: str) -> None:
    """Raise `ValueError` if a checkpoint's contents are far larger than the file: torch compresses only code."""
    if not zipfile.is_zipfile(path):
        return
    with zipfile.ZipFile(path) as archive:
        inside, outside = sum(member.file_size for member in archive.infolist()), Path(path).stat().st_size
    if inside > 2 * outside + 2**20:
        raise ValueError(f"it holds {inside} bytes in a file of {outside}, though torch.save doesn't compress")


def _why(error: Exception) -> str:
    text = str(error)
    is_pickle = isinstance(error, pickle.UnpicklingError) and "Weights only" in text
    if is_pickle and "Unsupported operand" in text:
        return "it is damaged, or isn't a torch checkpoint"
    if is_pickle or "TorchScript" in text:
        return (
            "it holds more than tensors, and loading Python objects runs code from the file.\n"
            "In the program that wrote it, save only the parameters: torch.save(model.state_dict(), FILE)"
        )
    return f"it is damaged, or isn't a torch checkpoint ({type(error).__name__}: {text.partition(chr(10))[0][:200]})"


def _state_dict(path: str, loaded: Any) -> tuple[Mapping[Any, Any], list[str]]:
    """Return the parameters by name, and the other keys."""
    if not isinstance(loaded, Mapping):
        raise UsageError(f"{path} holds a {type(loaded).__name__}, needed a state dict: tensors by name")
    if any(isinstance(value, torch.Tensor) for value in loaded.values()):
        return loaded, []
    inside = [key for key in _INSIDE if isinstance(loaded.get(key), Mapping)]
    if len(inside) > 1:
        raise UsageError(f"{path} holds {' and '.join(inside)}: save the one to convert in a separate file")
    if not inside:
        keys = ", ".join(map(str, loaded)) or "nothing"
        raise UsageError(
            f"{path} holds no tensors by name, nor a dict of them under {', '.join(_INSIDE)}; it has {keys}"
        )
    return loaded[inside[0]], [str(key) for key in loaded if key != inside[0]]


def _require_plain(path: str, name: str, tensor: torch.Tensor) -> None:
    what = None
    if tensor.is_quantized:
        what = "is quantized"
    elif tensor.dtype not in _DTYPES:
        what = f"has the dtype {str(tensor.dtype).removeprefix('torch.')}"
    elif tensor.layout != torch.strided:
        what = "is sparse"
    elif tensor.is_meta:
        what = "has no values (it is on the device meta)"
    if what is not None:
        raise UsageError(f"{path}: {name} {what}, which checkpoints of Cells don't have")
    try:
        check_memory(tuple(tensor.shape), np.dtype(np.float32))
    except ShapeError as error:
        raise UsageError(f"{path}: {name}: {error}") from error


def write_cells(path: str, arrays: Mapping[str, Array], record: Mapping[str, Any]) -> None:
    """Write a checkpoint that `load_checkpoint` reads.

    Args:
        path: the file.
        arrays: arrays by name.
        record: information for the conversion back, which is lost if the Parameters are saved again.
    """
    write_bytes(path, encode(arrays, {_RECORD: json.dumps(record)}))


def write_flax(path: str, arrays: Mapping[str, Array], record: Mapping[str, Any]) -> None:
    """Write variables of Flax by their paths, joined by dots, as safetensors; see `write_cells` for the arguments."""
    write_bytes(path, to_bytes(arrays, {_RECORD: json.dumps(record)}))


def write_torch(path: str, arrays: Mapping[str, Array]) -> None:
    """Write a state dict in the format of the suffix."""
    if Path(path).suffix.lower() == SAFETENSORS:
        write_bytes(path, to_bytes(arrays, {"format": "pt"}))
        return
    with atomic_path(path) as file:
        try:
            torch.save({name: as_tensor(array) for name, array in arrays.items()}, file)
        except (OSError, RuntimeError) as error:
            raise UsageError(f"can't write {path}: {error}") from error
