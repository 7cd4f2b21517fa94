"""Opens a checkpoint, whatever its format."""

from __future__ import annotations

from pathlib import Path

from ....runtime.errors import UsageError
from ..checkpoint_files import CELLS, PICKLED, SAFETENSORS, read_checkpoint
from .tensor import StoredCheckpoint, stored_array

FORMATS = {CELLS: "a checkpoint of Cells", SAFETENSORS: "safetensors"} | dict.fromkeys(PICKLED, "a torch checkpoint")


def open_checkpoint(path: str) -> StoredCheckpoint:
    """Open a checkpoint by its suffix.

    Args:
        path: the file.

    Raises:
        UsageError: it can't be read, or is something else.
    """
    kind = Path(path).suffix.lower()
    if kind not in FORMATS:
        raise UsageError(f"needed a checkpoint ({', '.join(FORMATS)}), given {path}")
    checkpoint = read_checkpoint(path)
    tied = {name: number for number, names in enumerate(checkpoint.ties) for name in names}
    tensors = {name: stored_array(name, array, tied.get(name)) for name, array in checkpoint.arrays.items()}
    return StoredCheckpoint(path, FORMATS[kind], tensors, tuple(checkpoint.skipped))
