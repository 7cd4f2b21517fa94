"""The pass rates of all suites: `python -m tests.coverage.summary`; needs the extras `test` and `models`."""

from __future__ import annotations

import sys
from collections import Counter

from tests.coverage import backend, gaps, torchvision_operators
from tests.coverage.operators import database
from tests.coverage.page import row


def summary() -> str:
    """Return a Markdown table with suite, tried, passed and share."""
    torchvision_operators.declare()
    from tests.coverage.families import CASES, gaps_by_case

    lines = ["| suite | tried | passed | share |", "| --- | ---: | ---: | ---: |"]
    for share in gaps.shares(gaps.read(), database()):
        lines.append(row(f"torch's operator database: {share.kind}", share.tried, share.passed))
    known, names = backend.gaps(), list(backend.cases())
    failing = [name for name in names if backend.is_gap(name, known)]
    lines.append(row("onnx's backend tests: the interpreter", len(names), len(names) - len(failing)))
    modes = Counter(mode for gap in gaps_by_case().values() for mode in gap)
    for mode in ("eval", "train"):
        lines.append(row(f"families of models: {mode} mode", len(CASES), len(CASES) - modes[mode]))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(summary() + "\n")
