"""A case of the snapshot, and running it in a process of its own."""

from __future__ import annotations

import multiprocessing
import os
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from cellbridge import runtime
from tests.snapshot.striking import strike, strike_json

SECONDS = 300
"""How long a step may take."""


@dataclass(frozen=True)
class Case:
    """Steps that are taken one after the other in an empty folder, each in a process forked from this one.

    Attributes:
        name: unique; folders are divided by `/`.
        steps: each prints, writes files, and returns an exit code; its text stands in the snapshot under its label.
        files: files by name that are there before.
        documents: JSON files that the steps write and that belong to the snapshot.
    """

    name: str
    steps: Sequence[tuple[str, Callable[[], int]]]
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    documents: Sequence[str] = ()


def run_case(case: Case) -> str:
    """Return the snapshot of a case: of each step its exit code and what it printed, then the documents."""
    with TemporaryDirectory(prefix="snapshot") as name:
        folder = Path(name)
        for file, content in case.files.items():
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        parts = []
        for number, (label, step) in enumerate(case.steps):
            outputs = [folder / f".{number}.{stream}" for stream in ("out", "err")]
            code = _in_process(step, folder, outputs)
            parts.append(f"== {label}\nexit code {code}")
            parts += [strike(path.read_text(errors="backslashreplace"), folder) for path in outputs]
        for file in case.documents:
            path = folder / file
            text = strike_json(path.read_text(), folder) if path.exists() else "isn't there"
            parts.append(f"== {file}\n{text}")
    return "\n".join(part for part in parts if part) + "\n"


def _in_process(step: Callable[[], int], folder: Path, outputs: Sequence[Path]) -> int | str:
    process = multiprocessing.get_context("fork").Process(target=_take, args=(step, folder, outputs))
    process.start()
    process.join(SECONDS)
    if process.is_alive():
        process.kill()
        process.join()
        return f"none: it took more than {SECONDS} s"
    return process.exitcode if process.exitcode is not None else "none"


def _take(step: Callable[[], int], folder: Path, outputs: Sequence[Path]) -> None:
    os.chdir(folder)
    random.seed(0)
    np.random.seed(0)  # code that a case runs may draw from the global generators
    torch.manual_seed(0)
    runtime.set_seed(0)
    for descriptor, path in zip((1, 2), outputs, strict=True):
        opened = os.open(path, os.O_WRONLY | os.O_CREAT)
        os.dup2(opened, descriptor)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
    sys.exit(step())
