"""Functions of torch with the name, operands and attributes of an op (`Traits.in_torch`)."""

from __future__ import annotations

from typing import Any

import torch

from ....runtime.ops import all_ops
from .table import FORMS, Context, torch_form

MODULES = {"torch": vars(torch), "nn.functional": vars(torch.nn.functional), "special": vars(torch.special)}


def _register(op: str, function: Any) -> None:
    @torch_form(op)
    def form(context: Context, *operands: Any, **attributes: Any) -> Any:
        return context.call(function, *operands, **attributes)


def register() -> None:
    """Register the ops that have no form of their own in a table."""
    for name, op in all_ops().items():
        if op.traits.in_torch and name not in FORMS:
            _register(name, MODULES[op.traits.in_torch][name])
