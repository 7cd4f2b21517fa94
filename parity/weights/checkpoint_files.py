"""Reading and writing checkpoints: torch's (`.pt`, `.pth`, `.bin`, `.safetensors`) and Cells' (`.ckpt`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from ...converter.dtypes import as_tensor
from ...runtime.errors import UsageError
from ...runtime.storage.safetensors_bytes import from_bytes, to_bytes
from ...runtime.train.checkpoint_format import decode, encode
from ..support.files import atomic_path, write_bytes
from .arrangements import Array
from .readers.torch_files import PICKLED, read_torch_file

SAFETENSORS = ".safetensors"
CELLS = ".ckpt"

_RECORD = "from_torch"  # a key of a checkpoint's metadata


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
        return _read_torch(path)
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


def _read_torch(path: str) -> Checkpoint:
    """Read a checkpoint of torch; `Checkpoint.arrays` are mapped where they can be."""
    stored = read_torch_file(path)
    checkpoint = Checkpoint({}, list(stored.skipped))
    tied: dict[object, list[str]] = {}
    for name, tensor in stored.tensors.items():
        if tensor.dtype.startswith("float8"):
            raise UsageError(f"{path}: {name} has the dtype {tensor.dtype}, which checkpoints of Cells don't have")
        checkpoint.arrays[name] = tensor.read()
        if tensor.storage is not None:
            tied.setdefault(tensor.storage, []).append(name)
    checkpoint.ties = [tuple(names) for names in tied.values()]
    return checkpoint


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
