"""A quantized ONNX model in ONNX Runtime, run from the codes that float64 yields at every quantizer.

A value midway between two steps may be rounded either way, inside a network too, and both results are right. So the
part after a quantizer is judged from the same codes, as a Cell is judged from the same inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import helper

from ...converter.onnx_in.importing import from_onnx
from ...converter.onnx_in.model.protos import graphs_of
from ...runtime.compiled.isolated import IsolatedSession
from ...runtime.errors import CellbridgeError
from ...runtime.ir.types import FLOAT64
from ...runtime.programs.call import as_array
from ..dtypes import cast_floating
from ..verdicts.judge import ROUNDING_FACTOR, epsilon
from .float_operators import CONCAT, DYNAMIC, ON_CODES, QUANTIZE, QUANTIZED, operator_of
from .records import Array, Mismatch
from .resolution import MAX_STEPS

CODE_PRODUCERS = frozenset({*QUANTIZE, *ON_CODES, CONCAT, DYNAMIC})
FROM_THE_SAME = "though they are computed from the same codes"


def is_quantized(model: onnx.ModelProto) -> bool:
    """Whether a model computes with the codes of quantizers."""
    return any(operator_of(node) in QUANTIZED for graph in graphs_of(model.graph) for node in graph.node)


class CodesOfFloat64:
    """A quantized model, cut at its quantizers.

    Attributes:
        notes: remarks for the reader of the report.
        approximate: codes of operators whose kernels use a table, and are often off by a step.
        mismatches: quantizers whose codes differ by more than single steps.
    """

    def __init__(self, model: onnx.ModelProto, provider: str) -> None:
        self.model = model
        self.provider = provider
        stored = {tensor.name for tensor in model.graph.initializer}
        outputs = {value.name for value in model.graph.output}
        self.codes = [
            node.output[0]
            for node in model.graph.node
            if operator_of(node) in CODE_PRODUCERS and node.input[0] not in stored and node.output[0] not in outputs
        ]
        self.approximate = {
            name for node in model.graph.node if node.op_type == "QLinearSoftmax" for name in node.output
        }
        self.notes: list[str] = []
        self.mismatches: list[Mismatch] = []

    def run(self, inputs: Mapping[str, Array]) -> dict[str, dict[str, Array]] | None:
        """Return ONNX Runtime's outputs, computed from the codes of float64; None if these can't be computed."""
        if not self.codes:
            return None
        try:
            codes = self._codes_in_float64(inputs)
            cut = self._cut_at_quantizers(codes)
            unoptimized, results = (self._run_model(cut, {**inputs, **codes}, optimized) for optimized in (False, True))
        except CellbridgeError:  # it can't be read as a program, or can't be cut
            return None
        changed = 0
        for name, expected in codes.items():
            self._require_few(name, next(iter(unoptimized[_runtime_name(name)].values())), expected)
            (computed,) = results.pop(_runtime_name(name)).values()
            changed += self._count_changed_codes(name, computed, expected)
        elements = "1 element" if changed == 1 else f"{changed} elements"
        self.notes.append(
            f"onnxruntime was judged from the codes that float64 yields at each of {len(codes)} quantizers: values "
            f"midway between two steps may be rounded either way, here in {elements}"
        )
        return results

    def _run_model(
        self, cut: onnx.ModelProto, inputs: Mapping[str, Array], optimized: bool
    ) -> dict[str, dict[str, Array]]:
        session = IsolatedSession(cut, self.provider, optimized=optimized)
        try:
            return session.run(inputs)
        finally:
            session.close()

    def _count_changed_codes(self, name: str, computed: Array, expected: Array) -> int:
        """Return the number of codes that differ from those expected; a difference of more than a step is a mismatch.

        ONNX Runtime fuses operators between quantizers into kernels that compute with codes, and may round differently.
        """
        if computed.shape != expected.shape:
            self._mismatch(name, f"shape {list(computed.shape)}, needed {list(expected.shape)}")
            return 0
        steps = np.abs(computed.astype(np.int64) - expected.astype(np.int64))
        changed, worst = int((steps > 0).sum()), int(steps.max(initial=0))
        if worst > 1:
            self._mismatch(name, f"{changed} of {steps.size} codes are off, by up to {worst} steps, {FROM_THE_SAME}")
        return changed

    def _require_few(self, name: str, computed: Array, expected: Array) -> None:
        """Without optimization, only values midway between two steps may be rounded the other way."""
        if computed.shape != expected.shape or name in self.approximate:
            return
        steps = np.abs(computed.astype(np.int64) - expected.astype(np.int64))
        changed, worst = int((steps > 0).sum()), int(steps.max(initial=0))
        fine = 2 * ROUNDING_FACTOR * epsilon("float32") * 2.0 ** (8 * expected.dtype.itemsize)
        if worst <= 1 and changed > max(1, max(MAX_STEPS, fine) * steps.size):
            self._mismatch(name, f"{changed} of {steps.size} codes are off by a step, {FROM_THE_SAME}")

    def _mismatch(self, name: str, reason: str) -> None:
        self.mismatches.append(Mismatch("", 0, "output", f"codes {name}", reason))

    def _codes_in_float64(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the codes of each quantizer in float64."""
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        del model.metadata_props[:]
        del model.graph.output[:]
        model.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in self.codes)
        program = from_onnx(model, shapes={name: array.shape for name, array in inputs.items()}).astype("float64")
        arrays = [inputs[value.name] for value in program.inputs]
        outputs = program(*(cast_floating(x, FLOAT64) for x in arrays))
        results = outputs if isinstance(outputs, Sequence) else [outputs]
        return dict(zip(self.codes, map(as_array, results), strict=True))

    def _cut_at_quantizers(self, codes: Mapping[str, Array]) -> onnx.ModelProto:
        """Return the model with its quantizers as outputs, and their codes as inputs."""
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        graph = model.graph
        for node in graph.node:
            node.output[:] = [_runtime_name(name) if name in codes else name for name in node.output]
        for name, array in codes.items():
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            graph.input.append(helper.make_tensor_value_info(name, kind, array.shape))
            graph.output.append(helper.make_tensor_value_info(_runtime_name(name), kind, None))
        remaining = [value for value in graph.value_info if value.name not in codes]
        del graph.value_info[:]
        graph.value_info.extend(remaining)
        return model


def _runtime_name(name: str) -> str:
    return f"{name} (as ONNX Runtime makes it)"
