"""The errors of a quantized network against the float32 one, on calibration data."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ....converter.dtypes import as_tensor
from ....converter.onnx_in.importing import from_onnx
from ....runtime import tree
from ....runtime.compiled.session import Session
from ....runtime.ir.types import is_floating
from ...results.quantization_costs import Errors
from ...sides.records import Array
from .calibration import Calibration

Loss = Callable[[Any], torch.Tensor]
RUNS = 20
"""Calls of which the median is a time."""


@dataclass(frozen=True)
class Outputs:
    """What the float32 network computes on calibration data.

    Attributes:
        calibration: the inputs.
        expected: the outputs of each sample.
        result: builds the result of the model from its outputs.
        loss: the loss of a result; None if there is none.
    """

    calibration: Calibration
    expected: list[list[Array]]
    result: Callable[[list[Array]], Any]
    loss: Loss | None

    @classmethod
    def of(cls, path: Path, calibration: Calibration, loss: Loss | None) -> Outputs:
        """Run the float32 file."""
        structure = from_onnx(path).result

        def result(outputs: list[Array]) -> Any:
            return tree.unflatten(structure, [as_tensor(np.ascontiguousarray(array)) for array in outputs])

        return cls(calibration, _run(path, calibration), result, loss)

    def errors(self, path: Path) -> Errors:
        """Return the errors of another file on the same inputs; raise `SessionError` if ONNX Runtime refuses it."""
        results = _run(path, self.calibration)
        off = size = 0.0
        for expected_outputs, outputs in zip(self.expected, results, strict=True):
            for expected, array in zip(expected_outputs, outputs, strict=True):
                if is_floating(expected.dtype):
                    wide = expected.astype(np.float64)
                    off += float(((array.astype(np.float64) - wide) ** 2).sum())
                    size += float((wide**2).sum())
        return Errors((off / size) ** 0.5 if size else 0.0, self._other_places(results), self._change_of_loss(results))

    def _other_places(self, results: list[list[Array]]) -> float:
        """Return the share of rows of the first output in which the largest element is at another place."""
        pairs = [
            (expected[0], actual[0])
            for expected, actual in zip(self.expected, results, strict=True)
            if expected[0].ndim
        ]
        different = [(a.argmax(-1) != b.argmax(-1)).reshape(-1) for a, b in pairs if a.size]
        return float(np.concatenate(different).mean()) if different else 0.0

    def _change_of_loss(self, results: list[list[Array]]) -> float | None:
        if self.loss is None:
            return None
        before, after = (
            sum(float(self.loss(self.result(outputs))) for outputs in several) for several in (self.expected, results)
        )
        return (after - before) / abs(before) if before else 0.0


def _run(path: Path, calibration: Calibration) -> list[list[Array]]:
    """Return the outputs of each sample in ONNX Runtime; raise `SessionError` if it refuses the file."""
    session = Session(path)
    return [list(session.run(sample).values()) for sample in calibration]


def seconds_of_run(path: Path, sample: Mapping[str, Array]) -> float:
    """Return the time of a run of ONNX Runtime on one sample: the median of several, after a first one."""
    session = Session(path)
    session.run(sample)
    seconds = []
    for _ in range(RUNS):
        start = time.perf_counter()
        session.run(sample)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)
