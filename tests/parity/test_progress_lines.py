"""Progress if stderr isn't a terminal."""

from __future__ import annotations

import io
import sys
import time

import pytest

from cellbridge.parity.support import progress_lines
from cellbridge.parity.support.progress import ProgressDisplay
from cellbridge.parity.support.progress_lines import ProgressLines


def waited_for(stream: io.StringIO, lines: int) -> list[str]:
    end = time.monotonic() + 10
    while stream.getvalue().count("\n") < lines and time.monotonic() < end:
        time.sleep(0.01)
    return stream.getvalue().splitlines()


def test_a_line_says_the_stage_and_how_far_it_is() -> None:
    stream = io.StringIO()
    lines = ProgressLines(stream, every=0.05)
    lines.start()
    lines.stage("interpreter", 4)
    lines.advance(3)
    written = waited_for(stream, 2)
    lines.stop()
    assert set(written) == {"interpreter 3 of 4 (0 s, about 0 s left)"}
    ended = stream.getvalue()
    time.sleep(0.2)
    assert stream.getvalue() == ended


class Kernel(io.StringIO):
    """The stdout of a notebook, by the module of its class."""


Kernel.__module__ = "ipykernel.iostream"


def test_a_notebook_has_one_line_that_is_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Kernel()
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(progress_lines.NotebookLine.__init__, "__defaults__", (0.05,))
    with ProgressDisplay() as shown:
        shown.stage("interpreter", 4)
        while stream.getvalue().count("\r") < 2:
            time.sleep(0.01)
    *_, last, cleared, end = stream.getvalue().split("\r")
    assert last == "interpreter 0 of 4 (0 s)"
    assert (cleared.strip(), end) == ("", "")
    assert len(cleared) == len(last)


@pytest.mark.parametrize(
    ("elapsed", "done", "total", "left"), [(6.0, 3, 4, 2.0), (6.0, 0, 4, None), (6.0, 4, 4, None), (6.0, 5, 4, None)]
)
def test_the_time_left_goes_by_the_pace_so_far(elapsed: float, done: int, total: int, left: float | None) -> None:
    assert progress_lines.seconds_left(elapsed, done, total) == left


def test_a_short_run_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with ProgressDisplay() as shown:
        shown.stage("capture", None)
    assert stream.getvalue() == ""


def test_a_long_run_writes_to_stderr_that_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress_lines.ProgressLines.__init__, "__defaults__", (0.05,))
    with ProgressDisplay() as shown:
        shown.stage("capture", None)
        written = waited_for(stream, 1)
    assert written[0] == "capture (0 s)"


def test_a_closed_stream_ends_no_run() -> None:
    stream = io.StringIO()
    stream.close()
    lines = ProgressLines(stream, every=0.01)
    lines.start()
    time.sleep(0.1)
    lines.stop()
