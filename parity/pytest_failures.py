"""What pytest shows of an error of ours: the test's own lines, and in the short summary the Cell and its cause."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

ROOMS = [Path(__file__).parents[1] / room for room in ("parity", "converter", "runtime")]


def hide_inner_frames(call: pytest.CallInfo[Any]) -> None:
    """Leave the package's frames out of the traceback of an error that tells users what to do."""
    if not _is_for_users(call):
        return
    excinfo: pytest.ExceptionInfo[BaseException] = call.excinfo  # type: ignore[assignment]
    if kept := _without_our_frames(excinfo.tb):
        call.excinfo = pytest.ExceptionInfo.from_exc_info((excinfo.type, excinfo.value, kept))


def _without_our_frames(traceback: TracebackType | None) -> TracebackType | None:
    frames = []
    while traceback is not None:
        if not any(Path(traceback.tb_frame.f_code.co_filename).is_relative_to(room) for room in ROOMS):
            frames.append(traceback)
        traceback = traceback.tb_next
    kept = None
    for frame in reversed(frames):
        kept = TracebackType(kept, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return kept


def name_the_cause(call: pytest.CallInfo[Any], shown: pytest.TestReport) -> None:
    """Let the line of the short summary begin with what is wrong, not with the class of the exception.

    An exception of the model's code, of which ours tells the file and line, isn't shown a second time.
    """
    crash = getattr(shown.longrepr, "reprcrash", None)
    if crash is None or not _is_for_users(call):
        return
    error = call.excinfo.value  # type: ignore[union-attr]
    report = getattr(error, "report", None)
    crash.message = str(error).partition("\n")[0] if report is None else report.headline
    if chain := getattr(shown.longrepr, "chain", None):
        del chain[:-1]


def _is_for_users(call: pytest.CallInfo[Any]) -> bool:
    from ..runtime.errors import CellbridgeError

    return call.excinfo is not None and isinstance(call.excinfo.value, CellbridgeError)
