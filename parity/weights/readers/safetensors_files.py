"""safetensors (format of safetensors 0.6): a file, an index of several, or a folder with them.

A file is eight bytes with the length of a header, a JSON header with dtype, shape and offsets of each tensor, and their
bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ....converter.mapped_weights import INDEX_SUFFIX, files_of, header_of
from ....runtime.errors import UsageError
from ....runtime.ir.types import as_dtype
from ....runtime.visible import visible_name
from .file_bytes import require_content, tensor_in_file
from .tensor import StoredCheckpoint, StoredTensor

DTYPES = {
    "BOOL": "bool", "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64",
    "U8": "uint8", "U16": "uint16", "U32": "uint32", "U64": "uint64",
    "BF16": "bfloat16", "F16": "float16", "F32": "float32", "F64": "float64",
    "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2",
}  # fmt: skip


def read_safetensors(path: str) -> StoredCheckpoint:
    """Read the headers of safetensors files.

    Raises:
        UsageError: a file is missing or damaged, its tensors overlap, or two files have a tensor of one name.
    """
    files = files_of(Path(path))
    tensors: dict[str, StoredTensor] = {}
    metadata: dict[str, Any] = {}
    for file in files:
        header, start = _header(file)
        metadata |= header.pop("__metadata__", {})
        for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"][0]):
            if name in tensors:
                raise UsageError(f"{path} holds {visible_name(name)} in two files: give the file that is meant")
            if entry["dtype"] not in DTYPES:
                raise UsageError(f"{file}: {visible_name(name)} has the dtype {visible_name(entry['dtype'])}")
            dtype, offset = as_dtype(DTYPES[entry["dtype"]]), start + entry["data_offsets"][0]
            tensors[name] = tensor_in_file(name, tuple(entry["shape"]), dtype, file, offset)
    if not tensors:
        raise UsageError(f"{path} holds no parameters")
    place = Path(path)
    for index in place.glob(f"*{INDEX_SUFFIX}") if place.is_dir() else [place] * place.name.endswith(INDEX_SUFFIX):
        require_all_of_index(index, tensors)
    parts = f", {len(files)} files" if len(files) > 1 else ""
    return StoredCheckpoint(path, f"safetensors{parts}", tensors, metadata=metadata)


def _header(path: Path) -> tuple[dict[str, Any], int]:
    """Return the header of a file, and where the bytes of tensors begin; say what the file is if it is another."""
    start = require_content(path)
    try:
        return header_of(path)
    except UsageError as error:
        hint = "\nIt looks like a torch checkpoint: give it the suffix .pt" if start.startswith(b"PK") else ""
        raise UsageError(f"{error}{hint}") from error


def require_all_of_index(index: Path, tensors: Mapping[str, StoredTensor]) -> None:
    """Raise `UsageError` if an index names a tensor that its files don't have."""
    names = json.loads(index.read_bytes())["weight_map"]
    if missing := [name for name in names if name not in tensors]:
        raise UsageError(
            f"{index} names {visible_name(missing[0])}"
            + (f" and {len(missing) - 1} more" if len(missing) > 1 else "")
            + ", which its files don't have: a file is of another run, or wasn't copied whole"
        )
