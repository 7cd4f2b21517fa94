"""Writes docs/coverage.md from the gap lists, `python -m tests.coverage.page`; needs the extras `test` and `models`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from cellbridge.converter.torch_version import torch_version
from tests.coverage import backend, gaps
from tests.coverage.operators import database

PAGE = Path(__file__).parents[2] / "docs" / "coverage.md"
TITLES = {
    "forward": "Forward",
    "backward": "Backward",
    "onnx": "ONNX Runtime",
    gaps.NOT_EXPORTED: "Not taken by torch.export",
}
HEAD = [
    "# Coverage",
    "",
    "This page says how much of other people's tests passes, and why the rest doesn't. `python -m tests.coverage.page`",
    "writes it from the lists of gaps in `tests/coverage/`. Slow tests (`pytest -m slow tests/coverage`) check these",
    "lists in both directions: everything that is listed must fail, and everything else must pass.",
    "",
]


def page() -> str:
    """Return the text of the page."""
    return "\n".join([*HEAD, *operators(), *backend_tests(), *families()])


def torch_release() -> str:
    """The release of torch that is installed: the database grows with each."""
    return "torch {}.{}".format(*torch_version())


def operators() -> list[str]:
    """Return the section about torch's operator database."""
    known, entries = gaps.read(), database()
    exported = len(entries) - len(gaps.entries_of(known, gaps.NOT_EXPORTED))
    lines = [
        "## torch's operator database (OpInfo)",
        "",
        f"{len(entries)} entries of {torch_release()}, of which `torch.export` takes {exported}. Each is tried on its",
        "sample inputs in float32 and float64, or in the dtypes that it supports. The results and gradients of the",
        "program and the results of ONNX Runtime are compared with torch's. An entry fails if one of its samples",
        "fails.",
        "",
        "| | entries | passed | share |",
        "| --- | ---: | ---: | ---: |",
        *(row(TITLES[share.kind], share.tried, share.passed) for share in gaps.shares(known, entries)),
    ]
    for kind in (*gaps.KINDS, gaps.NOT_EXPORTED):
        of_kind = [gap for gap in known if gap.kind == kind]
        if not of_kind:
            continue
        lines += [
            "",
            f"### {TITLES[kind]}: what doesn't pass" if kind != gaps.NOT_EXPORTED else f"### {TITLES[kind]}",
            "",
        ]
        lines += _list({gap.reason: gap.entries for gap in of_kind})
    return [*lines, ""]


def backend_tests() -> list[str]:
    """Return the section about the tests of ONNX backends."""
    known, names = backend.gaps(), list(backend.cases())
    failing = [name for name in names if backend.is_gap(name, known)]
    by_reason: dict[str, list[str]] = {}
    for pattern, reason in known.items():
        by_reason.setdefault(reason, []).append(pattern)
    return [
        "## onnx's backend tests",
        "",
        "Models of `onnx.backend.test` (node, simple, pytorch-operator and pytorch-converted) are read with",
        "`from_onnx` and run by the interpreter, and compared with the results that come with them.",
        "",
        "| | tests | passed | share |",
        "| --- | ---: | ---: | ---: |",
        row("Interpreter", len(names), len(names) - len(failing)),
        "",
        "### Backend tests that don't pass",
        "",
        *_list(by_reason),
        "",
    ]


def families() -> list[str]:
    """Return the section about whole models."""
    from tests.coverage.families import CASES, gaps_by_case

    known = gaps_by_case()
    lines = [
        "## Families of architectures",
        "",
        "Models of transformers, timm and diffusers with small random configurations are captured, run and",
        "differentiated by the interpreter, exported and run by ONNX Runtime, and converted back to torch. All of it",
        "is compared with torch Cell by Cell, as `parity run --round-trip` does.",
        "",
        "| | models | in eval mode | in train mode |",
        "| --- | ---: | ---: | ---: |",
    ]
    sizes = Counter(case.family for case in CASES)
    for family, size in sizes.items():
        failing = Counter(mode for case in CASES if case.family == family for mode in known.get(case.name, {}))
        lines.append(f"| {family} | {size} | {size - failing['eval']} | {size - failing['train']} |")
    failing = Counter(mode for modes in known.values() for mode in modes)
    lines.append(f"| all | {len(CASES)} | {len(CASES) - failing['eval']} | {len(CASES) - failing['train']} |")
    by_reason: dict[str, list[str]] = {}
    for name, modes in known.items():
        for reason in dict.fromkeys(gap["reason"] for gap in modes.values()):
            only = "" if len(modes) == 2 else f" ({next(iter(modes))})"
            by_reason.setdefault(reason, []).append(name + only)
    return [*lines, "", "### Models that don't pass", "", *_list(by_reason), ""]


def row(title: str, tried: int, passed: int) -> str:
    """Return a row of a table of suites."""
    return f"| {title} | {tried} | {passed} | {passed / tried:.1%} |"


def _list(by_reason: Mapping[str, Iterable[str]]) -> list[str]:
    return [f"- {reason}: {', '.join(f'`{name}`' for name in names)}" for reason, names in by_reason.items()]


if __name__ == "__main__":
    PAGE.write_text(page())
