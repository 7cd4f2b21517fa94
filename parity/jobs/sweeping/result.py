"""`Result`: what judging one model has come to, and `judge_model`, which does it in another process."""

from __future__ import annotations

import json
import re
import signal
import sys
import tempfile
import threading
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ....runtime.visible import visible_text
from ...results.comparison import FAIL, NOT_COMPARED, NOT_KNOWN, REFERENCE_WRONG
from .finding import CHECK
from .limits import Ended, Limits, run_limited
from .run_options import RunOptions

Outcome = Literal["holds", "fails", "unclear", "not judged"]
HOLDS: Outcome = "holds"
FAILS: Outcome = "fails"
UNCLEAR: Outcome = "unclear"
NOT_JUDGED: Outcome = "not judged"
ORDER: tuple[Outcome, ...] = HOLDS, UNCLEAR, NOT_JUDGED, FAILS
"""The outcomes, the best first."""
OUTCOMES: dict[int, Outcome] = {0: HOLDS, 1: FAILS, 4: UNCLEAR}
"""The outcomes that exit codes of `parity run` stand for, if it wrote a report; others are "not judged"."""
CHECK_HOLDS = "the check holds"
PARITY_HOLDS = "parity holds"
MAX_REASON = 300
TERMINAL = {"TERM": "dumb", "COLUMNS": "120"}
_FAILED = re.compile(r"^failed: (.*)", re.MULTILINE | re.DOTALL)
_ERROR = re.compile(r"^[Ee]rror: (.*)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Result:
    """The result of one model.

    Attributes:
        model: the model, as `parity run` takes it.
        outcome: "holds", "fails", "unclear" or "not judged".
        reason: the verdict, or why it wasn't judged, in a line.
        code: exit code of its process; of a signal, its negative number.
        seconds: how long its process ran.
        memory: the most bytes that were seen in its memory.
        failing: Cells that fail, of how many; empty if it wasn't judged.
        cause: the first cause that was proved, with the Cell, or how a check fails; empty if there is none.
        report: the report as JSON, compressed by zlib; empty if there is none.
        output: what its process printed, if it wasn't judged or is a check that fails.
        page: the HTML page on it; empty if it isn't asked for, or there is no report.
    """

    model: str
    outcome: Outcome
    reason: str
    code: int
    seconds: float
    memory: int
    failing: str = ""
    cause: str = ""
    report: bytes = b""
    output: str = ""
    page: bytes = b""

    @property
    def holds_in_full(self) -> bool:
        """Whether parity holds without conditions, such as a tolerance that replaces the computed bar."""
        return self.outcome == HOLDS and self.reason in (PARITY_HOLDS, CHECK_HOLDS)


def judge_model(
    model: str, options: RunOptions, limits: Limits, *, page: bool, interrupt: threading.Event | None = None
) -> Result:
    """Judge a model by `parity run`, or run a check, in a process of its own.

    Args:
        model: the model.
        options: options of `parity run`.
        limits: what the process may take.
        page: whether an HTML page on it is wanted.
        interrupt: stops it from another thread, once it is set.
    """
    if CHECK in model:
        return _checked(model, limits, interrupt)
    with tempfile.TemporaryDirectory() as folder:
        report, html = Path(folder) / "report.json", Path(folder) / "report.html"
        command = [sys.executable, "-m", "cellbridge.parity", "run", *options.words, "--json", str(report)]
        command += ["--html", str(html)] if page else []
        environment = TERMINAL | options.environment(Path(folder))
        ended = run_limited([*command, "--", model], limits, interrupt, environment)
        if ended.stopped or ended.code not in OUTCOMES or not report.exists():
            return _not_judged(model, ended, limits)
        text = report.read_text(encoding="utf-8")
        return _judged(model, ended, text, html.read_bytes() if page and html.exists() else b"")


def _checked(model: str, limits: Limits, interrupt: threading.Event | None) -> Result:
    command = [sys.executable, "-m", f"{__package__}.check_process", model]
    ended = run_limited(command, limits, interrupt, TERMINAL)
    failed = _FAILED.search(ended.output) if ended.code == 1 else None
    holds = ended.code == 0 and ended.output.rstrip().endswith(CHECK_HOLDS)
    if ended.stopped or not (failed or holds):
        return _not_judged(model, ended, limits)
    reason = CHECK_HOLDS if failed is None else visible_text(" ".join(failed[1].split()))[:MAX_REASON]
    if failed is None:
        return Result(model, HOLDS, reason, ended.code, ended.seconds, ended.memory)
    return Result(model, FAILS, reason, ended.code, ended.seconds, ended.memory, cause=reason, output=ended.output)


def _judged(model: str, ended: Ended, text: str, page: bytes) -> Result:
    document = json.loads(text)
    cells = document.get("cells", [])
    judged = [cell for cell in cells if cell.get("comparisons")]
    wrong = [cell for cell in judged if cell["verdict"] in (FAIL, NOT_COMPARED, NOT_KNOWN, REFERENCE_WRONG)]
    outcome = OUTCOMES[ended.code]
    within = ", ".join(document.get("conditions", {}).get("in_words", []))
    holds = f"{PARITY_HOLDS} {within}" if within else PARITY_HOLDS
    sentence, headline = (visible_text(document[name])[:MAX_REASON] for name in ("sentence", "headline"))
    return Result(
        model, outcome, holds if outcome == HOLDS else sentence, ended.code, ended.seconds, ended.memory,
        failing=f"{len(wrong)} of {len(judged)} Cells" if cells else "",
        cause="" if headline == sentence else headline, report=zlib.compress(text.encode()), page=page,
    )  # fmt: skip


def _not_judged(model: str, ended: Ended, limits: Limits) -> Result:
    return Result(
        model, NOT_JUDGED, _reason(ended, limits), ended.code, ended.seconds, ended.memory, output=ended.output
    )


def _reason(ended: Ended, limits: Limits) -> str:
    """Return in a line why there is no report."""
    if ended.stopped == "time":
        return f"it took more than {limits.seconds:g} s, and was stopped"
    if ended.stopped == "memory":
        return f"it needed more than {limits.memory / 1e9:.3g} GB of memory, and was stopped"
    if ended.code < 0:
        name = signal.strsignal(-ended.code) or f"signal {-ended.code}"
        return f"its process crashed: {name}"
    if ended.code in OUTCOMES:
        return f"its process ended by itself, with exit code {ended.code} and without a report"
    message = _ERROR.search(ended.output)
    reason = message[1] if message else f"exit code {ended.code}"
    return visible_text(" ".join(reason.split()))[:MAX_REASON]
