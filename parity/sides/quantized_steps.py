"""A quantized ONNX model in ONNX Runtime, run from the codes that float64 makes at every quantizer.

A value between two steps may fall to either side, in the middle of a network too, and what follows is then another
right result. So what follows a quantizer is judged from the same codes, as a Cell is from the same inputs.
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
from .float_operators import CONCAT, DYNAMIC, ON_CODES, QUANTIZE, QUANTIZED
from .records import Array, Mismatch
from .resolution import MAX_STEPS

MAKERS = frozenset({*QUANTIZE, *ON_CODES, CONCAT, DYNAMIC})
FROM_THE_SAME = "though they are computed from the same codes"


def is_quantized(model: onnx.ModelProto) -> bool:
    """Whether a model computes with the codes of quantizers."""
    return any(_key(node) in QUANTIZED for graph in graphs_of(model.graph) for node in graph.node)


class CodesOfFloat64:
    """A quantized model, cut at its quantizers.

    Attributes:
        notes: what a reader should know.
        approximate: codes of operators whose kernels compute with a table, and are off by a step often.
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
            if _key(node) in MAKERS and node.input[0] not in stored and node.output[0] not in outputs
        ]
        self.approximate = {
            name for node in model.graph.node if node.op_type == "QLinearSoftmax" for name in node.output
        }
        self.notes: list[str] = []
        self.mismatches: list[Mismatch] = []

    def run(self, inputs: Mapping[str, Array]) -> dict[str, dict[str, Array]] | None:
        """The outputs, each computed by ONNX Runtime from the codes of float64; None where they can't be had."""
        if not self.codes:
            return None
        try:
            given = self._in_float64(inputs)
            cut = self._cut(given)
            as_written, results = (self._run(cut, {**inputs, **given}, optimized) for optimized in (False, True))
        except CellbridgeError:  # it can't be read as a program, or in pieces
            return None
        changed = 0
        for name, expected in given.items():
            self._require_few(name, next(iter(as_written[_made(name)].values())), expected)
            (made,) = results.pop(_made(name)).values()
            changed += self._moved(name, made, expected)
        elements = "1 element" if changed == 1 else f"{changed} elements"
        self.notes.append(
            f"onnxruntime was judged from the codes that float64 makes at each of {len(given)} quantizers: values "
            f"between two steps fall to either side, here in {elements}"
        )
        return results

    def _run(self, cut: onnx.ModelProto, inputs: Mapping[str, Array], optimized: bool) -> dict[str, dict[str, Array]]:
        session = IsolatedSession(cut, self.provider, optimized=optimized)
        try:
            return session.run(inputs)
        finally:
            session.close()

    def _moved(self, name: str, made: Array, expected: Array) -> int:
        """How many codes are others than they should be; by more than a step is a mismatch.

        What ONNX Runtime puts in place of operators between quantizers computes with codes, and may round otherwise.
        """
        if made.shape != expected.shape:
            self._mismatch(name, f"shape {list(made.shape)}, needed {list(expected.shape)}")
            return 0
        steps = np.abs(made.astype(np.int64) - expected.astype(np.int64))
        changed, worst = int((steps > 0).sum()), int(steps.max(initial=0))
        if worst > 1:
            self._mismatch(name, f"{changed} of {steps.size} codes are off, by up to {worst} steps, {FROM_THE_SAME}")
        return changed

    def _require_few(self, name: str, made: Array, expected: Array) -> None:
        """As the file is written, only what lies between two steps may fall to the other side."""
        if made.shape != expected.shape or name in self.approximate:
            return
        steps = np.abs(made.astype(np.int64) - expected.astype(np.int64))
        changed, worst = int((steps > 0).sum()), int(steps.max(initial=0))
        fine = 2 * ROUNDING_FACTOR * epsilon("float32") * 2.0 ** (8 * expected.dtype.itemsize)
        if worst <= 1 and changed > max(1, max(MAX_STEPS, fine) * steps.size):
            self._mismatch(name, f"{changed} of {steps.size} codes are off by a step, {FROM_THE_SAME}")

    def _mismatch(self, name: str, reason: str) -> None:
        self.mismatches.append(Mismatch("", 0, "output", f"codes {name}", reason))

    def _in_float64(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The codes that each quantizer makes in float64."""
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        del model.metadata_props[:]
        del model.graph.output[:]
        model.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in self.codes)
        program = from_onnx(model, shapes={name: array.shape for name, array in inputs.items()}).astype("float64")
        arrays = [inputs[value.name] for value in program.inputs]
        found = program(*(cast_floating(x, FLOAT64) for x in arrays))
        results = found if isinstance(found, Sequence) else [found]
        return dict(zip(self.codes, map(as_array, results), strict=True))

    def _cut(self, given: Mapping[str, Array]) -> onnx.ModelProto:
        """The model whose quantizers take the place of outputs, and their codes that of inputs."""
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        graph = model.graph
        for node in graph.node:
            node.output[:] = [_made(name) if name in given else name for name in node.output]
        for name, array in given.items():
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            graph.input.append(helper.make_tensor_value_info(name, kind, array.shape))
            graph.output.append(helper.make_tensor_value_info(_made(name), kind, None))
        kept = [value for value in graph.value_info if value.name not in given]
        del graph.value_info[:]
        graph.value_info.extend(kept)
        return model


def _made(name: str) -> str:
    return f"{name} (as ONNX Runtime makes it)"


def _key(node: onnx.NodeProto) -> tuple[str, str]:
    return "" if node.domain == "ai.onnx" else node.domain, node.op_type
