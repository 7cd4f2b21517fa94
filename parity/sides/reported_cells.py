"""The Cells of a report: all of them, those that the run reached, and those that own parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping

import numpy as np
import torch

from ...converter.structure.program_names import named_modules
from ...runtime.errors import UsageError
from ...runtime.ir.types import is_floating
from ..correspondence.layers import CONTAINERS, kind_of_module
from ..results.cell_report import CellReport
from ..results.comparison import INLINED, NOT_REACHED, UNPAIRED
from ..verdicts.deviations import error, size
from .records import INPUT, INPUT_GRADIENT, OUTPUT, OUTPUT_GRADIENT, Array, Key, Records
from .side import Side
from .torch_side import TorchSide


def cell_reports(reference: Side, records: Records) -> dict[str, CellReport]:
    """Return an empty report for every Cell that ran, and every module that could have, in the order of the tree."""
    calls: dict[str, int] = {}
    classes: dict[str, str] = {}
    for call in records.calls:
        calls[call.path] = calls.get(call.path, 0) + 1
        classes[call.path] = call.class_name
    entries = {path: entry for entry, path in enumerate(calls)}
    if not isinstance(reference, TorchSide):
        return {path: CellReport(path, classes[path], calls[path], entry=entries[path]) for path in calls}
    reports: dict[str, CellReport] = {}
    in_use = used_parameters(records)
    for path, class_name, module in named_modules(reference.module):
        if path in calls:
            reports[path] = CellReport(path, classes[path], calls[path], entry=entries[path])
        elif reference.cell_paths is not None and path not in reference.cell_paths:
            if can_run(module) and kind_of_module(module) not in CONTAINERS:
                reports[path] = CellReport(path, class_name, 0, presence=UNPAIRED)
        elif can_run(module):
            reports[path] = CellReport(path, class_name, 0, presence=presence_without_calls(path, module, in_use))
    return reports


def presence_without_calls(path: str, module: torch.nn.Module, in_use: Collection[str]) -> str:
    """Return INLINED for a module that is never called itself though its parameters are used; else NOT_REACHED."""
    own_parameters = {f"{path}.{name}" for name, p in module.named_parameters() if p.requires_grad}
    return INLINED if own_parameters and own_parameters <= set(in_use) else NOT_REACHED


def used_parameters(records: Records) -> set[str]:
    """Return the names of the parameters that get a gradient."""
    return {name for name, gradient in records.gradients.parameters.items() if gradient is not None}


def can_run(module: object) -> bool:
    """Whether the module's class defines `forward` (a ModuleList doesn't)."""
    forward = getattr(type(module), "forward", None)
    return getattr(forward, "__name__", "") != "_forward_unimplemented"


def owners(cells: Mapping[str, CellReport], reference: Side, records: Records) -> dict[str, str]:
    """Return, for each parameter and buffer, the path of the innermost Cell that holds it and ran.

    If the name doesn't say it, as in many ONNX files, it is the Cell that uses the parameter: an exporter names what it
    folds after several parameters.
    """
    names = [*reference.parameters(), *records.state.updates, *records.state.buffers, *records.gradients.parameters]
    named = {name for name in names if name.rpartition(".")[0] in cells.keys() - {""}}
    users = {name: path for name, path in records.users.cells.items() if name not in named}
    return {name: users[name] if name in users else owner(name, cells) for name in names}


def owner(name: str, cells: Mapping[str, CellReport]) -> str:
    """Path of the innermost Cell that ran and contains the parameter or buffer `name`."""
    path = name
    while path:
        path = path.rpartition(".")[0]
        if path in cells and cells[path].calls:
            return path
    return ""


def require_elements(records: Records) -> None:
    """Raise `UsageError` if there is nothing to compare because no output has an element."""
    outputs = [records.values[key] for key in records.root_keys(OUTPUT)]
    if outputs and not any(array.size for array in outputs):
        shapes = ", ".join(str(list(array.shape)) for array in outputs)
        raise UsageError(
            f"the model's outputs have no elements, so there is nothing to compare: their shape is {shapes}\n"
            "  what to do: give inputs of at least one sample"
        )


def require_finite(records: Records, dtype: str, truth: Records | None = None) -> None:
    """Raise `UsageError`, naming the first Cell at fault, if outputs hold values that can't be compared.

    These are NaN, which hides any difference; infinities where the truth has none; and infinities of the truth that
    come from a pole or an overflow: then gradients aren't finite either, or all elements are infinite. Other
    infinities, such as those that a mask writes, are compared.

    Args:
        records: records of the reference.
        dtype: dtype of that run.
        truth: the reference's records in float64; None if `records` are the truth.
    """
    bad = [key for key in records.root_keys(OUTPUT) if not _comparable(records, key, truth)]
    if not bad:
        return
    given = [key for key in records.root_keys(INPUT) if _has_nan(records.values[key])]
    if given:
        raise UsageError(
            f"the inputs contain NaN ({', '.join(key.slot for key in given)}), and so do the model's outputs, which "
            "can't be compared\n  what to do: give inputs without NaN"
        )
    culprit = next(
        (
            key
            for key in records.values
            if key.kind == OUTPUT and not _finite(records.values[key]) and _inputs_finite(records, key)
        ),
        bad[0],
    )
    array = records.values[culprit]
    kind = "NaN" if _has_nan(array) else "infinity"
    count = int(math.prod(array.shape) - np.isfinite(array.astype(np.float64)).sum())
    children = any(key.path.startswith(f"{culprit.path}.") for key in records.values)
    raise UsageError(
        f"the model's outputs in {dtype} contain {kind}, which can't be compared\n"
        f"  the first Cell that returns it for finite inputs: {culprit.path or '(root)'} "
        f"({count} of {array.size} elements of its output {culprit.slot})"
        + ("\n  in its own code, not in one of the Cells it calls" if children else "")
        + "\n  what to do: check this Cell, its weights and the values of the inputs"
    )


def non_finite_notes(truth: Records) -> list[str]:
    """Return notes on infinities in the truth's outputs and NaN in its gradients."""
    outputs = {key.slot: truth.values[key] for key in truth.root_keys(OUTPUT)}
    gradients = {key.slot: truth.values[key] for key in truth.root_keys(INPUT_GRADIENT)} | truth.gradients.parameters
    infinite = [_share(name, array, np.isinf) for name, array in outputs.items() if not _finite(array)]
    nan = [_share(name, array, np.isnan) for name, array in gradients.items() if array is not None and _has_nan(array)]
    notes = {
        "infinite in the reference, where sign and place are compared": infinite,
        "NaN in the reference's gradients, which hides any difference": nan,
    }
    return [f"{what}: {', '.join(shares)}" for what, shares in notes.items() if shares]


def weak_input_notes(truth: Records) -> list[str]:
    """Return a note on each input of the root whose elements are all equal."""
    arrays = {key.slot: truth.values[key] for key in truth.root_keys(INPUT)}
    return [
        f"{name} is {_value(array)} in every element, which can't show {_hidden_fault(array)}: give inputs that vary"
        for name, array in arrays.items()
        if array.size > 1 and (array == array.flat[0]).all()
    ]


def _value(array: Array) -> str:
    return str(array.flat[0]) if array.dtype.kind in "biu" else f"{float(array.flat[0]):g}"


def _hidden_fault(array: Array) -> str:
    value = array.flat[0]
    if value == 0:
        return "what it is multiplied by"
    if value == 1:
        return "whether it masks, or scales, the right elements"
    return "whether its elements are taken in the right order, along the right axis"


def _share(name: str, array: Array, test: Callable[[Array], Array]) -> str:
    return f"{int(test(array).sum())} of {array.size} elements of {name}"


def _comparable(records: Records, key: Key, truth: Records | None) -> bool:
    array = records.values[key]
    if _finite(array):
        return True
    if _has_nan(array):
        return False
    if truth is not None:
        return bool(np.array_equal(np.isinf(array), np.isinf(truth.values[key])))
    gradients = [value for k, value in records.values.items() if k.kind in (INPUT_GRADIENT, OUTPUT_GRADIENT)]
    gradients += [gradient for gradient in records.gradients.parameters.values() if gradient is not None]
    return bool(np.isfinite(array).any()) and all(map(_finite, gradients))


def _finite(array: Array) -> bool:
    return not is_floating(array.dtype) or bool(np.isfinite(array.astype(np.float64, copy=False)).all())


def _has_nan(array: Array) -> bool:
    return is_floating(array.dtype) and bool(np.isnan(array.astype(np.float64, copy=False)).any())


def _inputs_finite(records: Records, output: Key) -> bool:
    slots = records.slots.get((output.path, output.call, INPUT), [])
    return all(_finite(records.values[Key(output.path, output.call, INPUT, slot)]) for slot in slots)


def require_repeatable(truth: Records, again: Records) -> None:
    """Raise `UsageError` unless the reference returns the same outputs when it is run again from the same state.

    State outside its modules isn't restored between runs, so there would be no truth to judge by.
    """
    for key in truth.root_keys(OUTPUT):
        value, expected = again.values.get(key), truth.values[key]
        if value is None or value.shape != expected.shape or error(value, expected)[0] > 1e-6 * size(expected):
            raise UsageError(
                f"the model returns another output {key.slot} when it is run again on the same inputs: it keeps "
                "state outside its modules between calls (a global, a class attribute, a file), or draws random "
                "numbers that torch's generator doesn't control\n"
                "  what to do: keep it in a buffer (self.register_buffer), or pass it in and return it"
            )
