"""What is measured, as rows of Markdown tables, and the machine it is measured on."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

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


def document(machine: str, topics: Mapping[str, tuple[str, Sequence[Row]]]) -> str:
    """The text of `RESULTS.md`: per title an explanation and rows."""
    parts = [
        "# Measured",
        "Written by `python -m benchmarks`. Ours and the peer take turns in the same run; numbers are medians, ratios "
        "are ours / peer, the median over the turns.",
        machine,
    ]
    parts += [section(title, explanation, rows) for title, (explanation, rows) in topics.items()]
    return "\n\n".join(parts) + "\n"


def section(title: str, explanation: str, rows: Sequence[Row]) -> str:
    """The text on one topic."""
    return "\n\n".join([f"## {title}", explanation, HEADER + "\n".join(map(str, rows))])


def with_section(text: str, section: str) -> str:
    """`RESULTS.md` with a section in the place of the one of the same title, or at the end if there is none."""
    title = section.partition("\n")[0]
    parts = text.rstrip("\n").split("\n\n## ")
    kept = [part for part in parts[1:] if f"## {part}".partition("\n")[0] != title]
    return "\n\n".join([parts[0], *(f"## {part}" for part in kept), section]) + "\n"


def machine() -> str:
    """Date, machine and versions, as a Markdown list."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = [f"Python {platform.python_version()}"]
    for package in PACKAGES:
        try:
            versions.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    facts = {
        "Date": datetime.date.today().isoformat(),
        "Machine": f"{_cpu()}, {os.cpu_count()} cores, {memory:.0f} GiB of memory, {platform.system()}",
        "Load average at the start": f"{os.getloadavg()[0]:.2f}",
        "Versions": ", ".join(versions),
    }
    return "\n".join(f"- {name}: {fact}" for name, fact in facts.items())


def _cpu() -> str:
    described = Path("/proc/cpuinfo")
    if described.exists():
        for line in described.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
