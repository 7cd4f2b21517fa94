"""The ops: one file per family, one block per op (see `registry` for the form of a declaration).

Every op is an attribute of its family's module; the registry finds it by name: `ops.get("softmax")`.

The public operators on tensors, `ops.relu(x)` and `ops.ReLU()(x)`, are attributes of this package too; they are defined
in `runtime.functional`.
"""

from __future__ import annotations

import difflib
import sys
from typing import Any

from ..lazy import resolve
from . import (
    activation,
    adaptive_pooling,
    attention,
    average_pooling,
    batch_normalization,
    bits,
    boundary,
    comparison,
    complex_numbers,
    contraction,
    convolution,
    creation,
    ctc,
    data_dependent,
    diagonals,
    elementwise,
    embeddings,
    float_parts,
    fourier,
    group_normalization,
    grouped,
    gru,
    gru_gradient,
    guard,
    indexing,
    linear,
    loss,
    lstm,
    lstm_gradient,
    max_pooling,
    normalization,
    products,
    random,
    random_distributions,
    rectifier,
    reduction,
    resize,
    rnn,
    rounding,
    scanning,
    self_gated,
    shaping,
    slicing,
    sorting,
    special,
    symbolic_methods,
    trigonometry,
)
from .higher_order import control_flow, loops, onnx_function, own_gradient, runtime_shaped
from .linear_algebra import matrix, matrix_functions, orthogonal, spectral, symmetric, triangular
from .registry import Op, all_ops, get

__all__ = [
    "Op",
    "activation",
    "adaptive_pooling",
    "all_ops",
    "attention",
    "average_pooling",
    "batch_normalization",
    "bits",
    "boundary",
    "comparison",
    "complex_numbers",
    "contraction",
    "control_flow",
    "convolution",
    "creation",
    "ctc",
    "data_dependent",
    "diagonals",
    "elementwise",
    "embeddings",
    "float_parts",
    "fourier",
    "get",
    "group_normalization",
    "grouped",
    "gru",
    "gru_gradient",
    "guard",
    "indexing",
    "linear",
    "loops",
    "loss",
    "lstm",
    "lstm_gradient",
    "matrix",
    "matrix_functions",
    "max_pooling",
    "normalization",
    "onnx_function",
    "orthogonal",
    "own_gradient",
    "products",
    "random",
    "random_distributions",
    "rectifier",
    "reduction",
    "resize",
    "rnn",
    "rounding",
    "runtime_shaped",
    "scanning",
    "self_gated",
    "shaping",
    "slicing",
    "sorting",
    "special",
    "spectral",
    "symbolic_methods",
    "symmetric",
    "triangular",
    "trigonometry",
]


# Scripts import operators from these modules too: `from cellbridge.runtime.ops import operations as P`.
_OTHER_NAMES = ("operations", "functional", "composite", "primitive")
sys.modules.update({f"{__name__}.{name}": sys.modules[__name__] for name in _OTHER_NAMES})


def __getattr__(name: str) -> Any:
    if name in _OTHER_NAMES:
        return sys.modules[__name__]
    close: list[str] = []
    if not name.startswith("__"):
        names = resolve("operators of Cells")
        if name in names:
            return names[name]
        close = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    return [*globals(), *resolve("operators of Cells")]
