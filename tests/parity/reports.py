"""Reports for tests: networks of several shapes, with planted findings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cellbridge.parity.report.report import Report
from cellbridge.parity.results.cell_report import CellReport
from cellbridge.parity.results.comparison import FAIL, PASS, Comparison

SIDES = ("interpreter", "onnxruntime")

CONVNET = {
    "": "ConvNet",
    "stem": "Conv2d",
    "blocks": "Sequential",
    "blocks.0": "Block",
    "blocks.0.norm": "BatchNorm2d",
    "blocks.0.act": "GELU",
    "blocks.1": "Block",
    "blocks.1.norm": "BatchNorm2d",
    "blocks.1.act": "GELU",
    "head": "Linear",
}


def encoder(layers: int) -> dict[str, str]:
    """A transformer whose layers lie in a list that isn't called itself."""
    parts = {
        "attention": "SelfAttention",
        "attention.query": "Linear",
        "attention.key": "Linear",
        "attention.out": "Linear",
        "norm1": "LayerNorm",
        "mlp": "FeedForward",
        "mlp.0": "Linear",
        "mlp.1": "GELU",
    }
    cells = {"": "Encoder", "embedding": "Embedding"}
    for layer in range(layers):
        cells |= {f"layers.{layer}": "EncoderLayer"} | {f"layers.{layer}.{path}": name for path, name in parts.items()}
    return cells | {"head": "Linear"}


def passing(**changes: Any) -> Comparison:
    """An output of 2 by 3 elements that passes, in the interpreter and with the Cell isolated."""
    fields: dict[str, Any] = {
        "side": "interpreter",
        "check": "rounding",
        "feeding": "isolated",
        "kind": "output",
        "tensor": "output",
        "call": 0,
        "status": PASS,
        "dtype": "float32",
        "shape": (2, 3),
        "error": 1.3e-7,
        "reference_error": 1e-7,
        "bar": 1e-6,
        "ratio": 1.3,
        "allowed": 10.0,
        "index": (1, 2),
        "reference_value": 0.75,
        "candidate_value": 0.75000013,
        "truth": 0.75,
        "source": "net.py:12: return self.norm(x)",
    }
    return Comparison(**fields | changes)


def failing(**changes: Any) -> Comparison:
    """The same output, where it isn't the same function: float64 shows it."""
    fields = {
        "check": "meaning",
        "dtype": "float64",
        "status": FAIL,
        "reason": "not the same function",
        "error": 3.2e-4,
        "bar": 1e-9,
        "ratio": 3.2e5,
        "allowed": 1.0,
        "candidate_value": 0.75032,
    }
    return passing(**fields | changes)


def cell(path: str, class_name: str, *extra: Comparison, **fields: Any) -> CellReport:
    """A Cell that passes on both sides, but for `extra`."""
    comparisons = [passing(side=side, check=check) for side in SIDES for check in ("meaning", "rounding")]
    comparisons.append(passing(kind="input gradient", tensor="input", ratio=1.1))
    return CellReport(path, class_name, comparisons=[*comparisons, *extra], **fields)


def report(cells: dict[str, str], *changed: CellReport, **fields: Any) -> Report:
    """A report on `cells` (class names by path) in which all pass, but for the ones given."""
    reports = {path: cell(path, name) for path, name in cells.items()} | {each.path: each for each in changed}
    whole = Report(
        model="net.py",
        reference="torch",
        sides=list(SIDES),
        dtype="float32",
        train=False,
        grads=True,
        seed=0,
        cells=reports,
    )
    return replace(whole, **fields)


def without_comparisons(path: str, class_name: str, presence: str) -> CellReport:
    """A Cell without findings."""
    return CellReport(path, class_name, calls=0, presence=presence)
