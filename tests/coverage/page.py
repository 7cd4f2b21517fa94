"""Writes docs/coverage.md from the gap lists: `python -m tests.coverage.page`."""

from __future__ import annotations

from pathlib import Path

from tests.coverage import gaps
from tests.coverage.operators import database

PAGE = Path(__file__).parents[2] / "docs" / "coverage.md"
TITLES = {
    "forward": "Forward",
    "backward": "Backward",
    "onnx": "ONNX Runtime",
    gaps.UNTAKEN: "Not taken by torch.export",
}


def page() -> str:
    """The text of the page."""
    return "\n".join(
        [
            "# Coverage",
            "",
            "What passes of other people's tests, and what doesn't, with the reason. This page is written by",
            "`python -m tests.coverage.page` from the gap lists in `tests/coverage/`; tests hold those against what",
            "happens, both ways: what is listed must fail, what isn't listed must pass.",
            "",
            *operators(),
        ]
    )


def operators() -> list[str]:
    """The section about torch's operator database."""
    known, entries = gaps.read(), database()
    untaken = len(gaps.listed(known, gaps.UNTAKEN))
    lines = [
        "## torch's operator database (OpInfo)",
        "",
        f"{len(entries)} entries, of which `torch.export` takes {len(entries) - untaken}. Each is tried on its sample",
        "inputs in float32 and float64 (or what else it supports): results and gradients of the program, and results",
        "of ONNX Runtime, against torch's. An entry fails if one of its samples does. The list was written from",
        "runs of its parts; it is still to be held against the whole database: factors of matrices, most of which",
        "ONNX has no operator for, aren't all listed yet.",
        "",
        "| | entries | passed | share |",
        "| --- | ---: | ---: | ---: |",
    ]
    for share in gaps.shares(known, entries):
        lines.append(f"| {TITLES[share.kind]} | {share.tried} | {share.passed} | {share.share:.1%} |")
    for kind in (*gaps.KINDS, gaps.UNTAKEN):
        of_kind = [gap for gap in known if gap.kind == kind]
        if not of_kind:
            continue
        lines += ["", f"### {TITLES[kind]}: what doesn't pass" if kind != gaps.UNTAKEN else f"### {TITLES[kind]}", ""]
        lines += [f"- {gap.reason}: {', '.join(f'`{entry}`' for entry in gap.entries)}" for gap in of_kind]
    return [*lines, ""]


if __name__ == "__main__":
    PAGE.write_text(page())
