"""Opens a checkpoint, whatever its format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from ....converter.mapped_weights import INDEX_SUFFIX
from ....runtime.errors import UsageError
from ..checkpoint_files import CELLS, SAFETENSORS, read_checkpoint
from .file_bytes import require_content
from .gguf import read_gguf
from .models import read_onnx, read_program
from .numpy_files import read_npy_folder, read_npz
from .packed.layouts import unpacked
from .safetensors_files import read_safetensors
from .tensor import StoredCheckpoint, stored_array
from .torch_files import IN_FOLDER, PICKLED, PICKLED_INDEX, read_torch

CONFIGURATION = "config.json"
LONGEST_CONFIGURATION = 1 << 20


@dataclass(frozen=True)
class Format:
    """A format of checkpoints.

    Attributes:
        what: what it is, in words.
        endings: how the names of its files end, in lower case.
        read: reads a file, and raises `UsageError` if it can't.
    """

    what: str
    endings: tuple[str, ...]
    read: Callable[[str], StoredCheckpoint]


def _read_cells(path: str) -> StoredCheckpoint:
    """Read a checkpoint of Cells or MindSpore."""
    checkpoint = read_checkpoint(path)
    tensors = {name: stored_array(name, array) for name, array in checkpoint.arrays.items()}
    return StoredCheckpoint(path, "a checkpoint of Cells or MindSpore", tensors, tuple(checkpoint.skipped))


FORMATS = (
    Format("safetensors, or an index of several", (SAFETENSORS, INDEX_SUFFIX), read_safetensors),
    Format("torch, or an index of several", (*PICKLED, PICKLED_INDEX), read_torch),
    Format("Cells or MindSpore", (CELLS,), _read_cells),
    Format("GGUF", (".gguf",), read_gguf),
    Format("NumPy", (".npz",), read_npz),
    Format("ONNX", (".onnx",), read_onnx),
    Format("programs", (".cell",), read_program),
)
"""What is read, by the ends of names; in a folder, safetensors, `pytorch_model.bin` or `.npy` files."""


def open_checkpoint(path: str) -> StoredCheckpoint:
    """Open a checkpoint by its name; quantized weights are dequantized when they are read.

    Args:
        path: the file or folder.

    Raises:
        UsageError: it can't be read, or is something else.
    """
    place = Path(path)
    if not place.exists():
        raise UsageError(f"no such file: {path}")
    if place.is_dir():
        folder, read = place, _reader_of_folder(place)
    elif not place.is_file():
        raise UsageError(f"can't read {path}: it isn't a regular file")
    else:
        known = [f.read for f in FORMATS if place.name.lower().endswith(f.endings)]
        if not known:
            endings = "; ".join(f"{f.what} ({', '.join(f.endings)})" for f in FORMATS)
            raise UsageError(f"needed a checkpoint: {endings}, or a folder; given {path}")
        require_content(place)
        read, folder = known[0], place.parent
    checkpoint = read(path)
    metadata = {**checkpoint.metadata, **_configuration(folder / CONFIGURATION)}
    return unpacked(replace(checkpoint, metadata=metadata))


def _reader_of_folder(folder: Path) -> Callable[[str], StoredCheckpoint]:
    """Return the reader of the files in a folder; of two formats, safetensors are preferred, as transformers does."""
    if any(folder.glob(f"*{SAFETENSORS}")) or any(folder.glob(f"*{INDEX_SUFFIX}")):
        return read_safetensors
    return read_torch if any((folder / name).exists() for name in IN_FOLDER) else read_npy_folder


def _configuration(path: Path) -> dict[str, str]:
    """Return the configuration of the model that is beside its weights, as text; nothing if there is none."""
    if not path.is_file():
        return {}
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(LONGEST_CONFIGURATION + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"can't read {path}: {error}") from error
    if len(text) > LONGEST_CONFIGURATION:
        raise UsageError(f"can't read {path}: it is longer than any configuration of a model")
    return {"config": text}
