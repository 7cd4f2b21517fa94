"""A quantized ONNX file and the float file that it was made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx

from ....runtime.ir.types import Value, is_floating
from ...inputs.onnx_reading import OnnxFile
from ...judging.judging import judge_sides
from ...options import Options
from ...report.report import Report
from ...results.comparison import FAIL
from ...sides.interpreter_side import InterpreterSide
from ...sides.onnxruntime_side import OnnxModelSide
from ...sides.records import Array
from ...support.progress import Progress
from .float_form import FloatForm
from .judging import judge_ranges, judge_weights
from .tensor_cells import TensorCells

SAMPLES = 8  # generated inputs that ranges are measured on
OUTSIDE = 1.0 / 64.0
"""Share of generated numbers beyond an input's quantizer above which they are generated in its range."""
UNUSED = 4.0
"""Largest ratio of the range of an input's quantizer to that of the generated numbers."""


class QuantizedFile:
    """A quantized file, and its float network.

    Attributes:
        path: path of the file.
        form: its float network.
    """

    def __init__(self, path: str, model: onnx.ModelProto, float_path: str, float_model: onnx.ModelProto) -> None:
        self.path = path
        self.form = FloatForm(model, Path(path).parent, float_model, Path(float_path).parent)
        self._model = model

    def fit_to_quantizers(
        self, declared: Sequence[Value], arrays: Sequence[Array], seed: int
    ) -> tuple[list[Array], list[str]]:
        """Return generated inputs in the ranges that the file quantizes them in, and notes."""
        ranges = {
            tensor.tensor: tensor.quantizer.range()
            for tensor in self.form.quantized
            if tensor.quantizer.scale.size == 1
        }
        generator = np.random.default_rng(seed)
        result: list[Array] = []
        notes: list[str] = []
        for value, array in zip(declared, arrays, strict=True):
            low, high = ranges.get(value.name, (-np.inf, np.inf))
            if not is_floating(array.dtype) or not array.size or not low < high < np.inf:
                result.append(array)
                continue
            outside = float(((array < low) | (array > high)).mean())
            if outside > OUTSIDE or high - low > UNUSED * float(array.max() - array.min()):
                array = np.asarray(generator.uniform(low, high, array.shape)).astype(array.dtype)
                notes.append(f"{value.name} was generated between {low:.3g} and {high:.3g}, as the file quantizes it")
            result.append(array)
        return result, notes

    def judge(
        self, report: Report, samples: Sequence[Mapping[str, Array]], inputs_given: bool, options: Options
    ) -> None:
        """Add the verdict on weights and quantizers to a report on the float network."""
        cells = TensorCells(self.form.model)
        comparisons = judge_weights(self.form, self.path, cells)
        ranges, notes = judge_ranges(self.form, self.path, cells, self._model, samples, inputs_given, options.provider)
        for path, comparison in [*comparisons, *ranges]:
            path = path if path in report.cells else ""
            if options.selects(path):
                report.cells[path].comparisons.append(comparison)
        report.notes += notes

    def judge_runtime(
        self, report: Report, file: OnnxFile, args: Sequence[Array], options: Options, shown: Progress
    ) -> None:
        """Add the comparison of ONNX Runtime on the file with the program read from it, with its codes."""
        if file.program is None:
            report.notes.append(f"ONNX Runtime's results from its codes weren't compared: {file.unknown}")
            return
        name = f"{self.path} in onnxruntime"
        reference = InterpreterSide(
            self.path, file.program, tuple(args), {}, working_dtype="float32", seed=options.seed
        )
        runtime = OnnxModelSide(name, self.path, tuple(args), {}, provider=options.provider)
        result = judge_sides(
            reference, [runtime], replace(options, grads=False, dtype="float32", only=(), skip=()), shown
        )
        report.sides.append(name)
        for comparison in result.cells[""].comparisons:
            reason = f"{comparison.reason}; compared with {self.path} as read" if comparison.status == FAIL else ""
            report.cells[""].comparisons.append(replace(comparison, reason=reason or comparison.reason))
