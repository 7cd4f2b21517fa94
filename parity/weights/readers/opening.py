"""Opens a checkpoint, whatever its format."""

from __future__ import annotations

from pathlib import Path

from ....runtime.errors import UsageError
from ..checkpoint_files import CELLS, PICKLED, SAFETENSORS, read_checkpoint
from .gguf import read_gguf
from .packed.layouts import unpacked
from .tensor import StoredCheckpoint, stored_array

GGUF = ".gguf"
FORMATS = {CELLS: "a checkpoint of Cells", SAFETENSORS: "safetensors", GGUF: "GGUF"}
FORMATS |= dict.fromkeys(PICKLED, "a torch checkpoint")
CONFIGURATION = "config.json"
LONGEST_CONFIGURATION = 1 << 20


def open_checkpoint(path: str) -> StoredCheckpoint:
    """Open a checkpoint by its suffix; quantized weights are dequantized when they are read.

    Args:
        path: the file.

    Raises:
        UsageError: it can't be read, or is something else.
    """
    kind = Path(path).suffix.lower()
    if kind not in FORMATS:
        raise UsageError(f"needed a checkpoint ({', '.join(FORMATS)}), given {path}")
    if kind == GGUF:
        return read_gguf(path)
    checkpoint = read_checkpoint(path)
    tied = {name: number for number, names in enumerate(checkpoint.ties) for name in names}
    tensors = {name: stored_array(name, array, tied.get(name)) for name, array in checkpoint.arrays.items()}
    metadata = _configuration(Path(path).parent / CONFIGURATION)
    return unpacked(StoredCheckpoint(path, FORMATS[kind], tensors, tuple(checkpoint.skipped), metadata))


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
