"""The tools that the benchmark judges: each is given a pair and answers with a `Finding`."""

from __future__ import annotations

from collections.abc import Callable

from fixtures.planted_faults.pairs import Pair

from .finding import Finding

Tool = Callable[[Pair], Finding | None]
"""Compares the two sides of a pair; None if it can't compare such a pair at all."""

FIRST = "cellbridge"
"""The tool whose figures are given in full."""


def tools() -> dict[str, Tool]:
    """Return the tools by name."""
    from . import cellbridge_tool, final_outputs, locks, module_outputs, recordings

    return {
        FIRST: cellbridge_tool.judge,
        "recording, living": recordings.against,
        "two recordings": recordings.judge,
        "lock": locks.judge,
        "assert_allclose": final_outputs.judge,
        "hooks": module_outputs.judge,
    }
