"""Files on the command line: that they are there."""

from __future__ import annotations

from pathlib import Path

from ...runtime.errors import UsageError
from ..inputs.user_source import no_such_file


def require_file(path: str) -> None:
    """Raise `UsageError` unless there is a file at this path; called before torch is imported, which takes seconds."""
    if not Path(path).exists():
        raise UsageError(no_such_file(Path(path), (".onnx", ".py")))
    if Path(path).is_dir():
        raise UsageError(f"needed a file, given the folder {path}")
