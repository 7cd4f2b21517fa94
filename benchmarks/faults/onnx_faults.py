"""Faults in ONNX files: the file that `to_onnx` writes of a network, with one attribute, initializer or node changed.

Each is judged twice: against the module ("onnx"), and file against file ("files"), which is the way to find the Cell.
"""

from __future__ import annotations

import functools
import importlib.util
import io
import shutil
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch

from cellbridge import converter

from .cases import Case
from .networks import NETWORKS
from .onnx_edits import FAULTS, NEWER_FAULTS, OnnxFault
from .pairs import Pair

KINDS = ("onnx", "files")
HAS_NEWER_EXPORTER = importlib.util.find_spec("onnxscript") is not None
"""Whether torch's newer exporter can run: onnxscript comes with the extra `benchmark`."""


@functools.cache
def exported(network: str, exporter: str = "cellbridge") -> onnx.ModelProto:
    """Return the ONNX model of a network, as cellbridge or one of torch's exporters writes it by default."""
    one = NETWORKS[network]
    if exporter == "cellbridge":
        return converter.to_onnx(converter.from_torch(one.module(), one.inputs()))
    if exporter == "torch.export":
        written = torch.onnx.export(one.module(), one.inputs(), dynamo=True, verbose=False)
        assert written is not None
        return written.model_proto
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(one.module(), one.inputs(), buffer, dynamo=False, opset_version=17)
    return onnx.load_from_string(buffer.getvalue())


def cases() -> list[Case]:
    """Return two cases for each fault, and two for a fault that nobody planted."""
    planted = [
        Case(
            f"{fault.network}/{fault.label}", fault.network, kind, (_wrong_cell(fault, kind),), fault.cause,
            (fault.expected,),
            fault.words, functools.partial(_pair, fault, kind),
        )
        for kind in KINDS
        for fault in [*FAULTS, *(NEWER_FAULTS if HAS_NEWER_EXPORTER else [])]
    ]  # fmt: skip
    return [*planted, *(_floor_division(kind) for kind in KINDS)]


def _floor_division(kind: str) -> Case:
    """The older exporter of torch rounds `-9 // 2`, in the padding of a convolution, towards zero."""
    words = ("pad",)
    expected = {"kind": ("attribute", "structure"), "words": words}
    return Case(
        "efficientnet/torch's file, floor division", "efficientnet", kind, ("blocks.1.expand",), "padding", (expected,),
        words, lambda: pair_of_files("efficientnet", exported("efficientnet", "torch"), kind),
    )  # fmt: skip


def _wrong_cell(fault: OnnxFault, kind: str) -> str:
    """The Cell that is wrong: against a module, the one around a batch norm that was folded into the wrong node."""
    return fault.cell if fault.around is None or kind == "files" else fault.around


def _pair(fault: OnnxFault, kind: str) -> Pair:
    model = onnx.ModelProto()
    model.CopyFrom(exported(fault.network, fault.exporter))
    fault.change(model)
    onnx.checker.check_model(model)
    return pair_of_files(fault.network, model, kind, fault.exporter)


def pair_of_files(network: str, model: onnx.ModelProto, kind: str, exporter: str = "cellbridge") -> Pair:
    """Return a pair with a changed model, written to a file that is deleted afterwards."""
    folder = tempfile.mkdtemp(prefix="faults")
    one = NETWORKS[network]
    args = one.inputs()
    candidate, reference = Path(folder) / "candidate.onnx", Path(folder) / "reference.onnx"
    onnx.save(model, candidate)
    onnx.save(exported(network, exporter), reference)
    stored = {initializer.name for initializer in model.graph.initializer}
    names = [value.name for value in model.graph.input if value.name not in stored]
    options = {
        "rounding": 1e-6,  # numbers of a file are in float32, also those that are computed on export
        "inputs": dict(zip(names, args, strict=True)),
        "difference": functools.partial(_difference, reference=str(reference), candidate=str(candidate)),
    }
    side: Any = one.module() if kind == "onnx" else str(reference)
    return Pair(side, str(candidate), args, options=options, cleanup=lambda: shutil.rmtree(folder))


def _difference(pair: Pair, reference: str, candidate: str) -> float:
    """The largest relative difference of the outputs of two files, which the interpreter runs in float64."""
    there, here = (_outputs(path, list(pair.options["inputs"].values())) for path in (reference, candidate))
    differences = [0.0 if a.shape == b.shape else np.inf for a, b in zip(there, here, strict=True)]
    for number, (a, b) in enumerate(zip(there, here, strict=True)):
        if a.shape == b.shape:
            differences[number] = float(np.abs(a - b).max() / np.abs(a).max())
    return max(differences)


def _outputs(path: str, inputs: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    names = [value.name for value in onnx.load(path).graph.input]
    shapes = {name: tuple(value.shape) for name, value in zip(names, inputs, strict=True)}
    arrays = [value.double().numpy() if value.is_floating_point() else value.numpy() for value in inputs]
    result = converter.from_onnx(path, shapes=shapes).astype("float64")(*arrays)
    return [result] if isinstance(result, np.ndarray) else list(result.values() if isinstance(result, dict) else result)
