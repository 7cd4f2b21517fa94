"""`to_torch`: converts a program to a torch module."""

from __future__ import annotations

from torch import nn

from ...runtime.ir.program import Program, require_program
from ...runtime.programs.subprograms import inline_functions
from . import runtime_shaped, tables  # noqa: F401  (fill the table)
from .assembly import Assembly
from .network import TorchNetwork


def to_torch(program: Program) -> nn.Module:
    """Convert a program to a torch module.

    The modules are nested and named as in the captured module, and called in the same places, so that hooks see the
    same tensors. Each walks a graph of calls of torch's functions; `code` shows it as text, which is never run. A
    module whose calls compute different things has a graph for each.

    A name that can't be an attribute (because of characters other than letters, digits, `_`, `-`, `:` and `/`, or
    because `nn.Module` uses it) becomes an identifier, made unique by a number; `names_of` has both names.

    Args:
        program: a program from `from_torch`, `from_onnx` or `runtime.load`.

    Returns:
        The module, with a copy of the parameters (those that aren't trainable don't require gradients; shared ones stay
        shared) and buffers. It takes and returns tensors in the structure of the program; symbolic sizes stay
        symbolic. Batch norm and dropout keep the mode of the program, whatever `train()` says; random ops draw from
        torch's generator.

    Raises:
        UnsupportedOperators: torch can't express an op, or a use of it; the message lists all.
        UsageError: `program` isn't a program.
        ConversionError: a Cell calls itself, an argument that isn't a tensor can't be a default, or Cells are nested
            deeper than torch can call modules.
    """
    require_program(program)
    return Assembly(TorchNetwork(inline_functions(program))).module()
