"""The Cells of a report: which there are, which the run reached, and which answers for a parameter."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ..runtime.errors import UsageError
from ..runtime.ir.types import is_floating
from .results import INLINED, NOT_REACHED, UNPAIRED, CellReport
from .sides.records import INPUT, OUTPUT, Key, Records, Side
from .sides.torch_side import TorchSide
from .weights.layers import CONTAINERS, kind_of_module


def cell_reports(reference: Side, records: Records) -> dict[str, CellReport]:
    """An empty report for every Cell: those that ran, and the modules that could have, in the order of the tree."""
    calls: dict[str, int] = {}
    classes: dict[str, str] = {}
    for call in records.calls:
        calls[call.path] = calls.get(call.path, 0) + 1
        classes[call.path] = call.class_name
    if not isinstance(reference, TorchSide):
        return {path: CellReport(path, classes[path], count) for path, count in calls.items()}
    reports: dict[str, CellReport] = {}
    used = {name for name, gradient in records.parameter_gradients.items() if gradient is not None}
    for path, module in reference.module.named_modules():
        if path in calls:
            reports[path] = CellReport(path, classes[path], calls[path])
        elif reference.watched is not None and path not in reference.watched:
            if can_run(module) and kind_of_module(module) not in CONTAINERS:
                reports[path] = CellReport(path, type(module).__name__, 0, presence=UNPAIRED)
        elif can_run(module):
            own = {f"{path}.{name}" for name, p in module.named_parameters() if p.requires_grad}
            presence = INLINED if own and own <= used else NOT_REACHED
            reports[path] = CellReport(path, type(module).__name__, 0, presence=presence)
    return reports


def can_run(module: object) -> bool:
    """Whether the module has a `forward` of its own (a ModuleList has none)."""
    forward = getattr(type(module), "forward", None)
    return getattr(forward, "__name__", "") != "_forward_unimplemented"


def owners(cells: Mapping[str, CellReport], reference: Side, records: Records) -> dict[str, str]:
    """For each parameter and buffer the path of the Cell that answers for it: the innermost that holds it and ran.

    Where the name tells of none, as in many ONNX files, it is the one that uses it.
    """
    names = [*reference.parameters(), *records.updates, *records.buffers, *records.parameter_gradients]
    return {name: owner(name, cells) or records.homes.get(name, "") for name in names}


def owner(name: str, cells: Mapping[str, CellReport]) -> str:
    """Path of the innermost Cell that ran and contains the parameter or buffer `name`."""
    path = name
    while path:
        path = path.rpartition(".")[0]
        if path in cells and cells[path].calls:
            return path
    return ""


def require_elements(records: Records) -> None:
    """`UsageError` if there is nothing to compare: no output has an element."""
    outputs = [records.values[key] for key in records.root(OUTPUT)]
    if outputs and not any(array.size for array in outputs):
        shapes = ", ".join(str(list(array.shape)) for array in outputs)
        raise UsageError(
            f"the model's outputs have no element, so that there is nothing to compare: they have the shape {shapes}\n"
            "  what to do: give inputs of at least one sample"
        )


def require_finite(records: Records, dtype: str) -> None:
    """Raise `UsageError`, naming the first Cell that makes them, if outputs hold NaN or infinity.

    What isn't finite can't be compared: any difference is hidden behind it.
    """
    bad = [key for key in records.root(OUTPUT) if not _finite(records, key)]
    if not bad:
        return
    culprit = next(
        (
            key
            for key in records.values
            if key.kind == OUTPUT and not _finite(records, key) and _inputs_finite(records, key)
        ),
        bad[0],
    )
    array = records.values[culprit]
    kind = "NaN" if np.isnan(array.astype(np.float64)).any() else "infinity"
    count = int(math.prod(array.shape) - np.isfinite(array.astype(np.float64)).sum())
    children = any(key.path.startswith(f"{culprit.path}.") for key in records.values)
    raise UsageError(
        f"the model's outputs in {dtype} contain {kind}, which can't be compared\n"
        f"  the first Cell to make it of finite inputs: {culprit.path or '(root)'} "
        f"({count} of {array.size} elements of its output {culprit.slot})"
        + ("\n  in its own code, not in one of the Cells it calls" if children else "")
        + "\n  what to do: check this Cell, its weights and the values of the inputs"
    )


def _finite(records: Records, key: Key) -> bool:
    array = records.values[key]
    return not is_floating(array.dtype) or bool(np.isfinite(array.astype(np.float64, copy=False)).all())


def _inputs_finite(records: Records, output: Key) -> bool:
    slots = records.slots.get((output.path, output.call, INPUT), [])
    return all(_finite(records, Key(output.path, output.call, INPUT, slot)) for slot in slots)
