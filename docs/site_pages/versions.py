"""Writes the page on versions, from the tables that the code asks."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path

from packaging.requirements import Requirement

from cellbridge.converter.torch_version import CHANGES, FAULTS
from cellbridge.runtime.workarounds import WORKAROUNDS

ROOT = Path(__file__).parents[2]
SUPPORTED = ("torch", "onnxruntime", "onnx", "numpy")


def page() -> str:
    """Which versions are supported, and what differs between them or is avoided in all of them."""
    changes = (
        (name, change.what, _version(change.since), _files(change.followed_in)) for name, change in CHANGES.items()
    )
    faults = ((name, fault.what, _files((fault.avoided_in,))) for name, fault in FAULTS.items())
    workarounds = (
        (
            name,
            f"`{w.operator}`" + ("" if w.provider == "cpu" else f" ({w.provider})"),
            w.fault,
            "none yet" if w.fixed_in is None else _version(w.fixed_in),
            _files((f"runtime/{w.avoided_in}",)),
        )
        for name, w in WORKAROUNDS.items()
    )
    parts = [
        "# Versions",
        "What is supported, and what the code does because of a version. Tests try every row on the bare torch or ONNX "
        "Runtime, and fail when a row has become needless or names a wrong version.",
        _table(("package", "versions"), _ranges()),
        "## Since which version torch does otherwise",
        "Captured programs, and the torch modules made of programs, do as the installed torch does: "
        "`converter/torch_version.py`.",
        _table(("name", "since then", "torch", "followed in"), changes),
        "## What is avoided in torch",
        "In all supported versions.",
        _table(("name", "fault", "avoided in"), faults),
        "## What is avoided in ONNX Runtime",
        "On the CPU: `runtime/workarounds.py`. A model is a file that any supported version may be given: a "
        "fault is avoided until the oldest supported version is without it.",
        _table(("name", "operator", "fault", "fixed in", "avoided in"), workarounds),
    ]
    return "\n\n".join(parts) + "\n"


def _ranges() -> list[tuple[str, str]]:
    lines = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    requirements = {requirement.name: requirement for requirement in map(Requirement, lines)}
    return [(name, f"`{requirements[name].specifier}`") for name in SUPPORTED]


def _table(heading: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heading, tuple("---" for _ in heading), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _version(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def _files(files: tuple[str, ...]) -> str:
    return ", ".join(f"`{file}`" for file in files)
