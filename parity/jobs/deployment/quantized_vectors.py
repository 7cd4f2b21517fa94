"""Inputs, outputs and bars that say where a quantized file runs whether it is still the same network.

Kernels may round a value midway between two steps either way, and all later values change by steps. So two right
runtimes differ by as much as quantizing makes: the bar of an output is twice the largest error of the file here,
against the float network, on the samples and on inputs near the first of them, whose roundings fall otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from ....converter.onnx_in.importing import from_onnx
from ....runtime import tree
from ....runtime.compiled.session import Session
from ....runtime.ir.types import FLOAT64, is_floating
from ....runtime.programs.call import as_array
from ...dtypes import cast_floating
from ...sides.records import Array
from .bundle import Vector
from .calibration import Calibration

SAMPLES = 32
"""The largest number of samples that errors are taken from."""
NEAR = 8
"""Inputs near the first sample."""
JITTER = 2.0**-10
"""By which share of themselves these differ."""
FACTOR = 2.0


@dataclass(frozen=True)
class QuantizedVectors:
    """What a bundle of a quantized file holds.

    Attributes:
        inputs: of the first sample.
        outputs: the float network's in float64, rounded to their dtype, with bars.
        left_out: names of outputs of integers that differ from the float network's, as places of largest elements do.
        error: the norm of the error of the floating-point outputs, relative to theirs, on the first sample.
    """

    inputs: list[Vector]
    outputs: list[Vector]
    left_out: list[str]
    error: float


def quantized_vectors(floats: Path, quantized: Path, samples: Calibration, seed: int) -> QuantizedVectors:
    """Run both files in ONNX Runtime, and the float network in float64.

    Args:
        floats: the float32 file.
        quantized: the quantized file.
        samples: inputs by name; the first are those of the bundle.
        seed: of the inputs near them.

    Raises:
        SessionError: ONNX Runtime can't run a file.
    """
    sessions = [Session(path) for path in (floats, quantized)]
    first = samples[0]
    truth = _in_float64(floats, first)
    worst = dict.fromkeys(truth, 0.0)
    off = size = 0.0
    for number, sample in enumerate(_draws(samples, seed)):
        expected, actual = (session.run(sample) for session in sessions)
        for name in worst:
            error = _largest(expected[name], actual[name])
            worst[name] = max(worst[name], error)
            if number == 0 and is_floating(truth[name].dtype):
                off += float(((actual[name].astype(np.float64) - truth[name]) ** 2).sum())
                size += float((truth[name] ** 2).sum())
    outputs = [
        Vector(name, array.astype(np.float32) if is_floating(array.dtype) else array, FACTOR * worst[name])
        for name, array in truth.items()
        if is_floating(array.dtype) or not worst[name]
    ]
    kept = {output.name for output in outputs}
    inputs = [Vector(name, array) for name, array in first.items()]
    left_out = [name for name in truth if name not in kept]
    return QuantizedVectors(inputs, outputs, left_out, (off / size) ** 0.5 if size else 0.0)


def _in_float64(path: Path, sample: dict[str, Array]) -> dict[str, Array]:
    """Return the outputs of a float network in float64."""
    model = onnx.load(path)
    del model.metadata_props[:]  # arguments and results are then those of the file, in its order
    program = from_onnx(model).astype("float64")
    results = program(*(cast_floating(sample[value.name], FLOAT64) for value in model.graph.input))
    names = (value.name for value in model.graph.output)
    return dict(zip(names, map(as_array, tree.leaves(results)), strict=True))


def _draws(samples: Calibration, seed: int) -> Iterator[dict[str, Array]]:
    """Yield the samples, the first of them first, and inputs near it."""
    yield from samples[:SAMPLES]
    rng = np.random.default_rng(seed)
    for _ in range(NEAR):
        yield {
            name: (array * (1 + JITTER * rng.standard_normal(array.shape))).astype(array.dtype)
            if is_floating(array.dtype)
            else array
            for name, array in samples[0].items()
        }


def _largest(expected: Array, actual: Array) -> float:
    """Return the largest difference; infinities that agree have none."""
    a, b = (array.astype(np.float64) for array in (expected, actual))
    with np.errstate(invalid="ignore"):
        return float(np.where(a == b, 0.0, np.abs(a - b)).max(initial=0.0))
