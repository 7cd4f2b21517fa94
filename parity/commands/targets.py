"""Files on the command line: that they are there."""

from __future__ import annotations

from pathlib import Path

from ...runtime.errors import ConversionError, UsageError
from ..inputs.user_source import no_such_file
from ..sides.kinds import Kind


def require_file(path: str) -> None:
    """Raise `UsageError` unless there is a file at this path; called before torch is imported, which takes seconds."""
    if not Path(path).exists():
        raise UsageError(no_such_file(Path(path), (".onnx", ".py")))
    if Path(path).is_dir():
        raise UsageError(f"needed a file, given the folder {path}")


def require_checkpoint(path: str) -> None:
    """Raise `UsageError` unless there is a file at this path whose name is that of a checkpoint."""
    from ..sides.opening import in_words, kind_of
    from ..weights.checkpoint_files import CELLS
    from ..weights.checkpoints import TORCH

    if Path(path).suffix.lower() in (*TORCH, CELLS):
        return  # what is wrong with it is said where it is read
    kind = kind_of(path)
    if kind is Kind.MODEL_FILE:
        hint = "\n  what to do: save what its network has: torch.save(network.state_dict(), 'weights.pt')"
    elif kind is Kind.RECORDING:
        hint = "\n  what to do: give one of its files"
    else:
        hint = ""
    suffixes = ", ".join((*TORCH, CELLS))
    raise UsageError(f"parity weights converts a checkpoint ({suffixes}), given {in_words(path)}{hint}")


def require_onnx_file(path: str) -> None:
    """Raise `UsageError` unless there is a file at this path, which is an ONNX model if its name doesn't say so."""
    require_file(path)
    if Path(path).suffix == ".onnx":
        return  # what is wrong with it is said where it is read
    from ...converter.onnx_in.importing import read_model

    try:
        read_model(path)
    except ConversionError as error:
        raise UsageError(
            f"{path} is neither a model file, whose name ends in .py, nor an ONNX model\n"
            "  what to do: a model file defines model() and inputs()"
        ) from error
