"""The program of a torch module, as the conversions are made from it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ...converter.capture.export import from_torch
from ...converter.dtypes import is_real
from ...runtime.errors import ConversionWarning
from ...runtime.ir.program import Program
from .hand_written import audit_backwards
from .precision import default_dtype, in_dtype


def capture_program(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic_shapes: Any,
    dtype: str,
    train: bool | None,
    *,
    copy: bool = True,
    checkpoint: Path | None = None,
) -> Program:
    """Return the program of a module in a working dtype and mode.

    A custom backward that isn't the derivative of its forward, apparently by mistake, is replaced by the derivative,
    which the module is then compared with. Without `copy`, it reads the module's parameters; if these are on the meta
    device, those of `checkpoint`.
    """
    working = getattr(torch, dtype)
    default = working if working == torch.float64 else torch.get_default_dtype()
    example_args, example_kwargs = _cast((args, kwargs), dtype)

    def capture(**more: Any) -> Program:
        with in_dtype(module, working, through=working, train=train), default_dtype(default):
            return from_torch(
                module, example_args, example_kwargs, dynamic_shapes=dynamic_shapes, train=train, copy=copy,
                checkpoint=checkpoint, **more,
            )  # fmt: skip

    program = capture()
    if checkpoint is not None or not any(node.op == "own_gradient" for node in program.nodes):
        return program
    double_args, double_kwargs = _cast((example_args, example_kwargs), "float64")
    audit = audit_backwards(module, double_args, double_kwargs, working, train=train)
    for note in audit.notes():
        warnings.warn(note, ConversionWarning, stacklevel=2)
    return capture(differentiated=audit.wrong) if audit.wrong else program


def _cast(tree: Any, dtype: str) -> Any:
    target = getattr(torch, dtype)
    return pytree.tree_map_only(torch.Tensor, lambda t: t.to(target) if is_real(t) else t, tree)
