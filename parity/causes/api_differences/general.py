"""The table: differences that may occur in any pair."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...correspondence.layers import CONTAINERS, kind_of_cell, kind_of_module, kind_of_name, names
from .entry import ANY, Difference, Finding, LayerPair
from .reading import MISSING, read_argument

_ALIKE = (
    *({f"batchnorm{axes}d", "syncbatchnorm"} for axes in (1, 2, 3)),
    {"constantpad2d", "zeropad2d"},
)


def _other_layer(pair: LayerPair) -> Finding | None:
    cell_kind, module_kind = kind_of_cell(pair.cell), kind_of_module(pair.module)
    if not cell_kind or not module_kind or cell_kind == module_kind or {cell_kind, module_kind} & CONTAINERS:
        return None
    if {cell_kind, module_kind} in _ALIKE:
        return None
    return Finding(pair.name, type(pair.module).__name__, f"nn.{cell_class(module_kind) or type(pair.module).__name__}")


def cell_class(kind: str) -> str:
    """Return the name of the runtime's Cell for a kind of layer; empty if there is none."""
    from ....runtime import nn

    names_ = [name for name in nn.__all__ if kind_of_name(name) == kind]
    return min(names_, key=lambda name: (name.lower() == kind, "Fast" in name, name), default="")


def _frozen(pair: LayerPair) -> Finding | None:
    """Find parameters that are trained on one side only."""
    of_cell = {module_name: cell_name for cell_name, module_name in names(kind_of_module(pair.module)).of_cell.items()}
    differing: dict[bool, list[tuple[str, str]]] = {True: [], False: []}
    for name, parameter in pair.module.named_parameters(recurse=False):
        cell_name = of_cell.get(name, name)
        trained = read_argument(pair.cell, f"{cell_name}.requires_grad", f"{name}.requires_grad")
        if trained is not MISSING and trained is not parameter.requires_grad:
            differing[parameter.requires_grad].append((cell_name, name))
    for needed, pairs in differing.items():
        if pairs:
            cell_names, module_names = (", ".join(names_of_side) for names_of_side in zip(*pairs, strict=True))
            write = ", ".join(f"{name}.requires_grad = {needed}" for name, _ in pairs)
            return Finding(
                f"requires_grad={not needed} of {cell_names}", f"requires_grad={needed} of {module_names}", write
            )
    return None


def _precision(pair: LayerPair) -> Finding | None:
    dtype = _compute_dtype(pair.cell)
    parameter = next(iter(pair.module.parameters()), None)
    if dtype is None or parameter is None:
        return None
    module_dtype = str(parameter.dtype).removeprefix("torch.")
    if dtype == module_dtype:
        return None
    return Finding(
        f"to_float={dtype}",
        f"dtype={module_dtype}",
        f"to_float(ms.{module_dtype})" if module_dtype != "float64" else "no to_float",
    )


def _compute_dtype(cell: Any) -> str | None:
    """The dtype of `to_float`, if it was called."""
    dtype = getattr(cell, "_compute_dtype", None)
    if dtype is not None:
        return str(np.dtype(dtype).name)
    flags = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32"}  # as MindSpore stores it
    return next((name for flag, name in flags.items() if getattr(cell, flag, False) is True), None)


GENERAL = (
    Difference(ANY, "the class", "the class", _other_layer, "The port has another layer here."),
    Difference(
        ANY, "requires_grad", "requires_grad", _frozen,
        "A frozen Parameter gets no gradient; the layers before it still do. Moving statistics are Parameters with "
        "`requires_grad=False`, in torch buffers.",
    ),
    Difference(
        ANY, "to_float", "dtype", _precision,
        "Operators in the Cell and below cast their operands to this dtype; Parameters keep theirs.",
    ),
)  # fmt: skip
