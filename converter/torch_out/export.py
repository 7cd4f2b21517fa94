"""`to_torch`: a program becomes a torch module."""

from __future__ import annotations

from torch import nn

from ...runtime.ir.program import Program, require_program
from ...runtime.programs.subprograms import with_definitions
from . import runtime_shaped, tables  # noqa: F401  (fill the table)
from .assembly import Assembly
from .network import TorchNetwork


def to_torch(program: Program) -> nn.Module:
    """Make a torch module of a program.

    Its modules are nested as those of the captured module were, under the same names, and each is called where that one
    was, so that hooks see the same tensors. Each walks a graph of calls of torch's functions: `code` shows it as text,
    which is never run. One whose calls compute different things has a graph for each.

    A name that can't be an attribute (it holds other characters than letters, digits, `_`, `-`, `:` and `/`, or is one
    that `nn.Module` uses) becomes an identifier, with a number where that is taken; `names_of` has both.

    Args:
        program: what `from_torch`, `from_onnx` or `runtime.load` gives.

    Returns:
        The module, with a copy of the parameters (those that aren't trainable don't require gradients; shared ones are
        shared) and buffers. It takes and returns what the program does, with tensors; symbolic sizes stay so. Batch
        norm and dropout do what they did when the program was captured, whatever `train()` says; random ops draw from
        torch's generator.

    Raises:
        UnsupportedOperators: ops, or uses of them, that torch has no expression for; all are listed.
        UsageError: it isn't a program.
        ConversionError: a Cell calls itself, an argument that isn't a tensor can't be a default, or Cells are nested
            deeper than torch can call modules.
    """
    require_program(program)
    return Assembly(TorchNetwork(with_definitions(program))).module()
