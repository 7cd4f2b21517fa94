"""Measurements as rows of Markdown tables, with their date and machine."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HEAD = """\
# Measured

Written by `python -m benchmarks`. Ours and the peer take turns in the same run; numbers are medians, ratios are \
ours / peer, the median over the turns."""
PACKAGES = ("torch", "numpy", "onnxruntime-gpu", "onnxruntime", "onnx", "onnxscript", "openvino", "transformers")
HEADER = """\
| model | measured | ours | peer | ratio | range of ratios | target | met |
|---|---|---:|---:|---:|---:|---:|---|
"""


@dataclass(frozen=True)
class Row:
    """Repeated measurements of one quantity, of cellbridge and of the peer, taken in turn.

    Attributes:
        model: name of the model file.
        quantity: the quantity measured.
        unit: unit of both.
        cellbridge: one number per repetition.
        peer: one number per repetition, paired with those of cellbridge.
        target: the largest acceptable ratio; None for no target.
    """

    model: str
    quantity: str
    unit: str
    cellbridge: Sequence[float]
    peer: Sequence[float]
    target: float | None

    @property
    def ratios(self) -> list[float]:
        return [a / b for a, b in zip(self.cellbridge, self.peer, strict=True)]

    def __str__(self) -> str:
        ratio = statistics.median(self.ratios)
        target, met = "", ""
        if self.target is not None:
            target, met = f"≤ {self.target:g}", "yes" if ratio <= self.target else "**no**"
        cellbridge, peer = (
            f"{_three_digits(statistics.median(xs))} {self.unit}" for xs in (self.cellbridge, self.peer)
        )
        spread = f"{min(self.ratios):.2f} to {max(self.ratios):.2f}"
        return f"| {self.model} | {self.quantity} | {cellbridge} | {peer} | {ratio:.2f} | {spread} | {target} | {met} |"


def _three_digits(number: float) -> str:
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"


def table(rows: Sequence[Row]) -> str:
    """Return rows as a Markdown table."""
    return HEADER + "\n".join(map(str, rows))


def section(title: str, explanation: str, table_text: str) -> str:
    """Return the section on one topic with its table."""
    return "\n\n".join([f"## {title}", explanation, table_text])


def document(text: str, section: str) -> str:
    """Return the text of `RESULTS.md` with a section replaced by title, or added at the end.

    Args:
        text: the current text of `RESULTS.md`.
        section: a section from `section`.
    """
    (title, replaced), *_ = sections(f"\n\n{section}").items()
    return "\n\n".join([HEAD, *(sections(text) | {title: replaced}).values()]) + "\n"


def sections(text: str) -> dict[str, str]:
    """Return the sections of a text of `RESULTS.md`, by title."""
    parts = text.rstrip("\n").split("\n\n## ")[1:]
    return {part.partition("\n")[0]: f"## {part}" for part in parts}


def circumstances() -> str:
    """Return date, machine, versions and load as a sentence."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    machine = f"{_cpu()}, {os.cpu_count()} cores, {memory:.0f} GiB of memory, {platform.system()}"
    versions = [f"Python {platform.python_version()}"]
    for package in PACKAGES:
        try:
            versions.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    load = f"load average at the start {os.getloadavg()[0]:.2f}"
    return f"Measured on {datetime.date.today().isoformat()} ({machine}; {', '.join(versions)}; {load})."


def _cpu() -> str:
    cpu_info = Path("/proc/cpuinfo")
    if cpu_info.exists():
        for line in cpu_info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
