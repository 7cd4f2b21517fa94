"""An ONNX model as the reference, run in ONNX Runtime, for models that can't be read as a program."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx

from ...runtime.compiled.isolated import Given, IsolatedSession
from ...runtime.ir.types import CellCall, is_floating
from ...runtime.tree import TENSOR, Structure
from .onnx_models import copy_of
from .onnxruntime_side import OnnxModelSide, tensors_of
from .records import OUTPUT, Array, Key, Records
from .run import Run


@dataclass(frozen=True, eq=False, repr=False)
class OnnxReferenceSide(OnnxModelSide):
    """An ONNX model whose results in its own dtype serve as the truth, since it can't be run in another precision.

    Its rounding error is estimated by runs whose inputs and weights are perturbed by up to half a unit in the last
    place, an error that another order of operations might cause.
    """

    _results: dict[str, Array] = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "_results", tensors_of(self.session.run(self.inputs)))

    def run(self, run: Run) -> Records:
        """Return the outputs under their names; a run in float64 returns those of the model's own dtype."""
        jitter = run.numbers.jitter
        results = self._results if jitter is None else self._run_with_jitter(jitter.seed, jitter.units)
        names = tuple(results)
        records = Records(calls=[CellCall("", "whole model")])
        records.result = Structure("dict", (TENSOR,) * len(names), names)
        for name, array in results.items():
            wide = run.dtype == "float64" and is_floating(array.dtype)
            records.add(Key("", 0, OUTPUT, name), array.astype(np.float64) if wide else array)
        return records

    def _run_with_jitter(self, seed: int, units: float) -> dict[str, Array]:
        generator = np.random.default_rng(seed)
        inputs = {name: _perturb_input(value, generator, units) for name, value in self.inputs.items()}
        model = self._perturb_weights(generator, units)
        if model is None:
            return tensors_of(self.session.run(inputs))
        session = IsolatedSession(model, self.provider, optimized=self.optimized)
        try:
            return tensors_of(session.run(inputs))
        finally:
            session.close()

    def _perturb_weights(self, generator: np.random.Generator, units: float) -> onnx.ModelProto | None:
        """Return the model with its tensors of two or more dimensions perturbed; None if it is too large."""
        model = copy_of(self.model)
        if model is None:
            return None
        constants = [a.t for node in model.graph.node if node.op_type == "Constant" for a in node.attribute]
        for tensor in (*model.graph.initializer, *constants):
            if len(tensor.dims) >= 2 and tensor.data_type in _FLOATING:
                array = onnx.numpy_helper.to_array(tensor)
                tensor.CopyFrom(onnx.numpy_helper.from_array(_perturb(array, generator, units), tensor.name))
        return model


_FLOATING = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE)


def _perturb_input(value: Given, generator: np.random.Generator, units: float) -> Given:
    """Return an input with every number perturbed by up to `units` units in the last place."""
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return [_perturb(item, generator, units) for item in value]
    return _perturb(np.asarray(value), generator, units)


def _perturb(array: Array, generator: np.random.Generator, units: float) -> Array:
    if array.dtype.kind != "f":
        return array
    eps = float(np.finfo(array.dtype).eps)
    perturbed: Array = (array.astype(np.float64) * (1 + eps * generator.uniform(-units, units, array.shape))).astype(
        array.dtype
    )
    return perturbed
