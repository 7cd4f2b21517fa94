"""Conversion of torch modules and ONNX models to programs, and of programs to ONNX, torch modules or Cell source.

    from_torch             converts a torch module, with example inputs, to a program
    from_onnx              converts an ONNX model to a program
    from_jax               converts a function of JAX, or a module of Flax or Equinox, to a program
    to_onnx                converts a program to an ONNX model
    training_step_to_onnx  converts a compiled training step to an ONNX model and a file that describes it
    to_torch               converts a program to a torch module
    to_cell_source         converts a program to the source code of Cells, to read and extend
    to_cell_checkpoint     converts the parameters of a program to a checkpoint for those Cells

Importing this package is cheap: torch and onnx load with the first function that needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.lazy import lazy_getattr

if TYPE_CHECKING:
    from .capture.export import from_torch
    from .cell_source.checkpoint import to_cell_checkpoint
    from .cell_source.source import to_cell_source
    from .jax_in.importing import from_jax
    from .onnx_in.importing import from_onnx
    from .onnx_out.export import to_onnx
    from .onnx_out.training import training_step_to_onnx
    from .torch_out.export import to_torch

__all__ = [
    "from_jax",
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
        "from_jax": "jax_in.importing",
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
