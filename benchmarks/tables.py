"""What is measured, as rows of Markdown tables, and when and where it is."""

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
PACKAGES = ("torch", "numpy", "onnxruntime-gpu", "onnxruntime", "onnx", "onnxscript", "transformers")
HEADER = """\
| model | measured | ours | peer | ratio | range of ratios | target | met |
|---|---|---:|---:|---:|---:|---:|---|
"""


@dataclass(frozen=True)
class Row:
    """Repeated measurements of one quantity, ours and the peer's, taken in turn.

    Attributes:
        model: name of the model file.
        quantity: what was measured.
        unit: of both.
        ours: one number per repetition.
        peer: likewise; the repetitions pair up.
        target: the largest ratio aimed at; None for none.
    """

    model: str
    quantity: str
    unit: str
    ours: Sequence[float]
    peer: Sequence[float]
    target: float | None

    @property
    def ratios(self) -> list[float]:
        return [a / b for a, b in zip(self.ours, self.peer, strict=True)]

    def __str__(self) -> str:
        ratio = statistics.median(self.ratios)
        target, met = "", ""
        if self.target is not None:
            target, met = f"≤ {self.target:g}", "yes" if ratio <= self.target else "**no**"
        ours, peer = (f"{_three_digits(statistics.median(xs))} {self.unit}" for xs in (self.ours, self.peer))
        spread = f"{min(self.ratios):.2f} to {max(self.ratios):.2f}"
        return f"| {self.model} | {self.quantity} | {ours} | {peer} | {ratio:.2f} | {spread} | {target} | {met} |"


def _three_digits(number: float) -> str:
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"


def table(rows: Sequence[Row]) -> str:
    """Rows as a Markdown table."""
    return HEADER + "\n".join(map(str, rows))


def section(title: str, explanation: str, measured: str) -> str:
    """The text on one topic: `measured` is its table."""
    return "\n\n".join([f"## {title}", explanation, measured])


def document(text: str, section: str) -> str:
    """The text of `RESULTS.md`: `text`, with a section in the place of the one of the same title, or at the end.

    Args:
        text: what `RESULTS.md` says now.
        section: as `section` makes it.
    """
    kept = {f"## {part}".partition("\n")[0]: f"## {part}" for part in text.rstrip("\n").split("\n\n## ")[1:]}
    kept[section.partition("\n")[0]] = section
    return "\n\n".join([HEAD, *kept.values()]) + "\n"


def circumstances() -> str:
    """Date, machine, versions, and how busy the machine is, as a sentence."""
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
    described = Path("/proc/cpuinfo")
    if described.exists():
        for line in described.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
