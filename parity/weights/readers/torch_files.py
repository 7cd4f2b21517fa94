"""torch's checkpoints (torch.save of torch 2): a file, an index of several, or a folder of transformers with them.

Only tensors are loaded (`weights_only`), and mapped where the file is a zip archive; pickled code is never run.
"""

from __future__ import annotations

import pickle
import struct
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ....converter.mapped_weights import files_of_index
from ....runtime.errors import ShapeError, UsageError
from ....runtime.memory import check_memory
from ....runtime.programs.call import as_array
from ....runtime.visible import visible_name
from .file_bytes import require_content
from .safetensors_files import require_all_of_index
from .tensor import StoredCheckpoint, StoredTensor

PICKLED = (".pt", ".pth", ".bin")
PICKLED_INDEX = ".bin.index.json"
IN_FOLDER = ("pytorch_model.bin.index.json", "pytorch_model.bin")
"""What transformers names the files of a folder."""

_INSIDE = ("state_dict", "model_state_dict", "model")

# exceptions of torch.load for a damaged file; a pickle may fail in any of these ways
_UNREADABLE = (
    ArithmeticError, AssertionError, AttributeError, EOFError, ImportError, LookupError, MemoryError, OSError,
    pickle.UnpicklingError, RuntimeError, TypeError, ValueError, struct.error, zipfile.BadZipFile,
)  # fmt: skip
_DTYPES = frozenset({
    torch.bool, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32,
    torch.uint64, torch.bfloat16, torch.float16, torch.float32, torch.float64,
    torch.float8_e4m3fn, torch.float8_e5m2,
})  # fmt: skip


def read_torch(path: str) -> StoredCheckpoint:
    """Read a file, those that an index names, or those of a folder.

    Raises:
        UsageError: a file is damaged or missing, holds more than tensors, or two files have a tensor of one name.
    """
    place = Path(path)
    if place.is_dir():
        place = next((place / name for name in IN_FOLDER if (place / name).exists()), place / IN_FOLDER[-1])
        require_content(place)
    if not place.name.lower().endswith(PICKLED_INDEX):
        return read_torch_file(str(place))
    tensors: dict[str, StoredTensor] = {}
    skipped: list[str] = []
    files = files_of_index(place, ".bin")
    for file in files:
        require_content(file)
        part = read_torch_file(str(file))
        if both := next((name for name in part.tensors if name in tensors), None):
            raise UsageError(f"{path} holds {visible_name(both)} in two files: give the file that is meant")
        tensors |= part.tensors
        skipped += part.skipped
    require_all_of_index(place, tensors)
    return StoredCheckpoint(path, f"a torch checkpoint, {len(files)} files", tensors, tuple(skipped))


def read_torch_file(path: str) -> StoredCheckpoint:
    """Read one file by its state dict; raise `UsageError` if it is damaged or holds something else."""
    try:
        _require_no_bomb(path)
        with warnings.catch_warnings(action="ignore"):
            loaded = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror or error}") from error
    except _UNREADABLE as error:
        raise UsageError(f"can't read {path}: {_why(error)}") from error
    state, skipped = _state_dict(path, loaded)
    plain: dict[str, torch.Tensor] = {}
    by_place: dict[Any, list[str]] = {}
    for name, tensor in state.items():
        if not isinstance(name, str):
            raise UsageError(f"{path}: a name must be a string, given {name!r}")
        if not isinstance(tensor, torch.Tensor):
            skipped.append(f"{name} ({type(tensor).__name__})")
            continue
        _require_plain(path, name, tensor)
        plain[name] = tensor
        if tensor.numel():
            key = (tensor.untyped_storage().data_ptr(), tensor.storage_offset(), tensor.shape, tensor.stride())
            by_place.setdefault(key, []).append(name)
    if not plain:
        raise UsageError(f"{path} holds no parameters{': ' * bool(skipped)}{', '.join(skipped)}")
    tied = {name: (path, names[0]) for names in by_place.values() if len(names) > 1 for name in names}
    tensors = {name: _stored(name, tensor, tied.get(name)) for name, tensor in plain.items()}
    return StoredCheckpoint(path, "a torch checkpoint", tensors, tuple(skipped))


def _stored(name: str, tensor: torch.Tensor, storage: object) -> StoredTensor:
    rows = tensor.detach().reshape(1) if tensor.ndim == 0 else tensor.detach()
    dtype = str(tensor.dtype).removeprefix("torch.")
    return StoredTensor(name, tuple(tensor.shape), dtype, lambda start, stop: as_array(rows[start:stop]), storage)


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
