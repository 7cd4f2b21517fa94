"""What a MODEL on the command line names: a model file, or an ONNX file."""

from __future__ import annotations

from pathlib import Path

from ...runtime.errors import UsageError
from ..inputs.torch_files import is_torch_file


def file_of(model: str) -> str:
    """The file of `path/model.py:factory`."""
    head, _, factory = model.rpartition(":")
    return head if head and factory.isidentifier() else model


def is_onnx_file(target: str) -> bool:
    """Whether a MODEL is an ONNX file, by its name."""
    return Path(target).suffix == ".onnx"


def is_model_file(target: str) -> bool:
    """Whether the target is path/model.py, path/model.py:factory, package.module:factory or path/program.pt2.

    Others are ONNX files for `parity compare`, whatever their names.
    """
    return (
        Path(file_of(target)).suffix == ".py"
        or is_torch_file(target)
        or (file_of(target) != target and not Path(target).exists())
    )


def require_file(path: str) -> None:
    """Raise `UsageError` unless there is a file at this path; called before torch is imported, which takes seconds."""
    if not Path(path).exists():
        raise UsageError(f"no such file: {path}")
    if Path(path).is_dir():
        raise UsageError(f"needed a file, given the folder {path}")
