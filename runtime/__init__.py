"""Cell IR, its ops and autodiff, the interpreter, and the eager Cell API; needs no torch.

import cellbridge.runtime as ms
from cellbridge.runtime import nn, ops, Tensor, Parameter
"""

from __future__ import annotations

from typing import Any

from .lazy import lazily

_HOMES = {
    # programs
    "Gradients": "calling",
    "Program": "ir.program",
    "execute": "interpreter",
    "load": "saving",
    "verify": "ir.verify",
    # errors
    "CellbridgeError": "errors",
    "ConversionError": "errors",
    "ParityError": "errors",
    "ProgramError": "errors",
    "ShapeError": "errors",
    "UnsupportedOperators": "errors",
    "UsageError": "errors",
    # packages and modules
    "amp": "",
    "common": "",
    "context": "",
    "nn": "",
    "ops": "",
    "train": "",
    # tensors
    "Parameter": "common.parameter",
    "ParameterTuple": "common.parameter",
    "Tensor": "common.tensor",
    "tensor": "common.creation",
    "set_seed": "common.seed",
    "get_seed": "common.seed",
    # dtypes
    "bfloat16": "common.dtype",
    "bool_": "common.dtype",
    "dtype_to_nptype": "common.dtype",
    "dtype_to_pytype": "common.dtype",
    "float16": "common.dtype",
    "float32": "common.dtype",
    "float64": "common.dtype",
    "int16": "common.dtype",
    "int32": "common.dtype",
    "int64": "common.dtype",
    "int8": "common.dtype",
    "uint16": "common.dtype",
    "uint32": "common.dtype",
    "uint64": "common.dtype",
    "uint8": "common.dtype",
    # gradients
    "GradOperation": "gradients",
    "get_grad": "gradients",
    "grad": "gradients",
    "value_and_grad": "gradients",
    # modes
    "GRAPH_MODE": "context",
    "PYNATIVE_MODE": "context",
    "get_context": "context",
    "set_context": "context",
    # checkpoints
    "load_checkpoint": "train.serialization",
    "load_param_into_net": "train.serialization",
    "save_checkpoint": "train.serialization",
}

__all__ = [*_HOMES]  # noqa: PLE0604

_lazily = lazily(__name__, _HOMES)


def __getattr__(name: str) -> Any:
    return _lazily(name)
