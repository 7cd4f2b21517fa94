"""Files that ONNX Runtime itself rejects: an error about such a file says that first."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from ....runtime.compiled.isolated import IsolatedSession, SessionEnded
from ....runtime.compiled.session import SessionError
from ....runtime.errors import CellbridgeError
from ...support.messages import first_line

MAX_SECONDS = 60.0  # to load a file, after an error about it


@contextlib.contextmanager
def explain_rejected(*paths: str) -> Iterator[None]:
    """Within the context, an error's message begins with what ONNX Runtime has against a file, if it rejects one.

    Args:
        paths: the files that the context reads.
    """
    try:
        yield
    except SessionError:  # it is ONNX Runtime's already
        raise
    except CellbridgeError as error:
        rejections = [
            f"ONNX Runtime itself rejects {path}: {reason}"
            for path in dict.fromkeys(paths)
            if Path(path).is_file() and (reason := reason_to_reject(path))  # a device has no end
        ]
        if rejections:
            error.args = ("\n".join([*rejections, f"  besides: {error}"]),)
        raise


def reason_to_reject(path: str) -> str:
    """ONNX Runtime's reason not to load a file, in a line; empty if it loads, or can't be tried."""
    session = IsolatedSession(path, seconds=MAX_SECONDS)
    try:
        session.load()
    except SessionEnded:
        return ""
    except SessionError as error:
        return first_line(error).removeprefix("ONNX Runtime can't run the model: ").rpartition(f"{path} failed:")[2]
    finally:
        session.close()
    return ""
