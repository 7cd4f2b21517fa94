"""Models in, models out: torch modules and ONNX models become programs; programs become ONNX models, torch modules or
the source of Cells.

    from_torch             a torch module, with example inputs, becomes a program
    from_onnx              an ONNX model becomes a program
    to_onnx                a program becomes an ONNX model
    training_step_to_onnx  a compiled step of training becomes an ONNX model, with a file that describes it
    to_torch               a program becomes a torch module
    to_cell_source         a program becomes the source of Cells, to read and to go on from
    to_cell_checkpoint     the parameters of a program become a checkpoint for them

Importing this package is cheap: torch and onnx load with the first function that needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.lazy import lazy_getattr

if TYPE_CHECKING:
    from .capture.export import from_torch
    from .cell_source.checkpoint import to_cell_checkpoint
    from .cell_source.source import to_cell_source
    from .onnx_in.importing import from_onnx
    from .onnx_out.export import to_onnx
    from .onnx_out.training import training_step_to_onnx
    from .torch_out.export import to_torch

__all__ = [
    "from_onnx",
    "from_torch",
    "to_cell_checkpoint",
    "to_cell_source",
    "to_onnx",
    "to_torch",
    "training_step_to_onnx",
]

__getattr__ = lazy_getattr(
    __name__,
    {
        "from_onnx": "onnx_in.importing",
        "from_torch": "capture.export",
        "to_cell_checkpoint": "cell_source.checkpoint",
        "to_cell_source": "cell_source.source",
        "to_onnx": "onnx_out.export",
        "to_torch": "torch_out.export",
        "training_step_to_onnx": "onnx_out.training",
    },
)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
