"""`check_snapshot`: a network compared with what was locked."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ....recorder import Recorder
from ....runtime.errors import UsageError
from ....runtime.ir.types import as_dtype, is_floating
from ....runtime.visible import visible_name
from ...checking.recordings.judge import judge
from ...checking.recordings.versions import changed_versions
from ...options import OptionKeywords
from ...report.globs import list_names
from ...report.report import Report
from ...results.cell_report import CellReport
from ...results.comparison import FAIL, Comparison
from ...verdicts.judge import epsilon
from .contents import ELEMENTS, SKETCH_SIZE, Boundary, CellParts, Snapshot, Tensor
from .snapshot import places

LOCKED, NOW = "locked", "now"
CLOSE = 8.0
"""Units in the last place of the largest number by which inputs and parameters may differ by the processor alone."""
_ROLES = {
    "output": "output",
    "passed value": "input",
    "input gradient": "input_gradient",
    "passed gradient": "output_gradient",
    "parameter gradient": "parameter_gradient",
    "parameter": "parameter",
    "buffer update": "buffer_update",
}


def check_snapshot(
    locked: Snapshot,
    now: Snapshot,
    locked_versions: Mapping[str, str],
    versions: Mapping[str, str],
    options: OptionKeywords,
) -> Report:
    """Judge what a network computes now by what it computed when it was locked.

    Sketches are judged as the tensors themselves are (`parity.judge`): each by the reference's own rounding error.

    Args:
        locked: the reference.
        now: the same network in this environment.
        locked_versions: versions of libraries then, by name.
        versions: versions of libraries now.
        options: fields of `Options` for judging: `only`, `skip`, `rtol`, `atol`, `strict`.

    Returns:
        The report. What Cells are made of, where that has changed, explains those that fail.

    Raises:
        UsageError: the inputs aren't those that were locked.
    """
    start = _differing_start(locked, now)
    compared = now if not start else _with_start_of(locked, now)
    with tempfile.TemporaryDirectory() as folder:
        _write(locked, Path(folder) / LOCKED, locked)
        _write(compared, Path(folder) / NOW, locked)
        options = {**options, "grads": locked.grads, "model": locked.label}
        report = judge(Path(folder) / LOCKED, Path(folder) / NOW, **options)
    for path, cell in report.cells.items():
        cell.comparisons = [_of_tensor(c, path, locked, now) for c in cell.comparisons]
    changed = list(changed_versions(locked_versions, versions))
    for path in report.failing:
        report.cells[path].explanations += _changes(locked.cells.get(path), now.cells.get(path)) or _no_change(changed)
    if start:
        report.notes.append(
            "the inputs or weights differ from those that were locked in their last digits alone "
            f"({list_names(start)}): random numbers are computed otherwise here, so that rounding alone was judged; "
            "load them from files to judge meaning too"
        )
    report.notes += _bits_note(locked, now, report)
    report.notes += [f"since it was locked: {', '.join(changed)}"] if changed else []
    return report


def _differing_start(locked: Snapshot, now: Snapshot) -> list[str]:
    """Return the inputs and parameters that differ in their last digits, if nothing differs more.

    torch draws normal random numbers with other last digits on other processors, so the same seed gives other weights.

    Raises:
        UsageError: an input differs more.
    """
    slots: dict[str, None] = {}
    has_other_weights = False
    for boundary, tensor in locked.tensors.items():
        if not _is_start(boundary) or boundary.run != locked.dtype:
            continue
        other = now.tensors.get(boundary)
        if other is not None and other.bits == tensor.bits:
            continue
        if other is not None and _is_close(locked, tensor, now, other):
            slots[boundary.slot] = None
        elif boundary.role == "parameter":
            has_other_weights = True
        else:
            state = "isn't there" if other is None else f"is {other.dtype}{list(other.shape)} with other values"
            raise UsageError(
                f"{visible_name(locked.model)}: the inputs aren't those that were locked: "
                f"{visible_name(boundary.slot)}, {tensor.dtype}{list(tensor.shape)} then, {state} now\n"
                "  what to do: let inputs() seed its random numbers, or lock again if other inputs are meant"
            )
    return [] if has_other_weights else list(slots)


def _is_start(boundary: Boundary) -> bool:
    """Whether a tensor is an input of the network or a parameter."""
    return boundary.role == "parameter" or (boundary.role == "input" and boundary.cell == "")


def _is_close(locked: Snapshot, tensor: Tensor, now: Snapshot, other: Tensor) -> bool:
    """Whether two tensors of a working dtype differ in the last digits alone."""
    if (tensor.dtype, tensor.shape) != (other.dtype, other.shape) or not is_floating(as_dtype(tensor.dtype)):
        return False
    then, current = (np.array(snapshot.sketches[which.bits]) for snapshot, which in ((locked, tensor), (now, other)))
    return bool(np.abs(current - then).max() <= CLOSE * epsilon(locked.dtype) * np.abs(then).max())


def _with_start_of(locked: Snapshot, now: Snapshot) -> Snapshot:
    """Return a snapshot without its run in float64, and with the inputs and parameters that were locked."""
    kept = {boundary: tensor for boundary, tensor in now.tensors.items() if boundary.run == locked.dtype}
    start = {
        boundary: locked.tensors[boundary] for boundary in kept if _is_start(boundary) and boundary in locked.tensors
    }
    calls = [call for call in now.calls if call["run"] == locked.dtype]
    first = now.calls.index(calls[0])
    calls = [call | {"parent": None if call["parent"] is None else call["parent"] - first} for call in calls]
    return replace(now, calls=calls, tensors=kept | start, sketches=locked.sketches | now.sketches)


def _write(snapshot: Snapshot, path: Path, locked: Snapshot) -> None:
    """Write a recording of the sketches; one of a tensor of another shape than was locked has another size."""
    with Recorder(
        path, dtype=snapshot.dtype, mode="train" if snapshot.train else "eval", seed=snapshot.seed
    ) as recorder:
        for call in snapshot.calls:
            with recorder.run(call["run"]):
                recorder.add_call(call["cell"], call["index"], call["class"], call["parent"])
        for boundary, tensor in snapshot.tensors.items():
            if not tensor.bits:
                with recorder.run(boundary.run):
                    recorder.add_absent(boundary.cell, boundary.call, boundary.slot, (SKETCH_SIZE,))
                continue
            array = np.array(snapshot.sketches[tensor.bits])
            if array.dtype.kind == "f":
                array = array.astype(np.float64 if boundary.run == "float64" else np.float32)
            other = locked.tensors.get(boundary)
            if other is not None and other.shape != tensor.shape:
                array = np.append(array, array[:1])
            with recorder.run(boundary.run):
                _add(recorder, boundary, array)
                if not tensor.tracked:
                    recorder.mark_untracked(boundary.cell, boundary.call, boundary.role, boundary.slot)


def _add(recorder: Recorder, boundary: Boundary, array: Any) -> None:
    if boundary.role == "parameter":
        recorder.parameter(boundary.slot, array)
    elif boundary.role == "parameter_gradient":
        recorder.parameter(boundary.slot, gradient=array)
    elif boundary.role == "buffer":
        recorder.buffer(boundary.slot, array)
    elif boundary.role == "buffer_update":
        recorder.buffer(boundary.slot, update=array)
    else:
        recorder.add_tensor(boundary.cell, boundary.call, boundary.role, boundary.slot, array)


def _of_tensor(comparison: Comparison, path: str, locked: Snapshot, now: Snapshot) -> Comparison:
    """Return the comparison of sketches as one of the tensors that they stand for."""
    run = "float64" if comparison.check == "meaning" else locked.dtype
    named = comparison.kind in ("parameter", "parameter gradient", "buffer update")
    cell, slot = ("", comparison.tensor) if named else (path, comparison.tensor)
    if comparison.kind.startswith("passed"):
        cell, _, slot = comparison.tensor.rpartition(" ")
    boundary = Boundary(run, cell, 0 if named else comparison.call, _ROLES.get(comparison.kind, ""), slot)
    then, current = locked.tensors.get(boundary), now.tensors.get(boundary)
    if then is None:
        return comparison
    comparison = replace(comparison, shape=then.shape)
    if current is not None and current.shape != then.shape:
        reason = f"shape {list(current.shape)} now, {list(then.shape)} when it was locked"
        return replace(comparison, index=None, reason=reason)
    if comparison.index is None:
        return comparison
    if comparison.index[0] >= ELEMENTS:  # a sum over all elements
        return replace(comparison, index=(), reference_value=None, candidate_value=None, truth=None)
    flat = places(math.prod(then.shape))[comparison.index[0]]
    return replace(comparison, index=tuple(int(i) for i in np.unravel_index(flat, then.shape)))


def _changes(then: CellParts | None, now: CellParts | None) -> list[str]:
    """Return what a Cell is made of otherwise than when it was locked, in words."""
    if then is None or now is None:
        return []
    words = []
    if then.class_name != now.class_name:
        words.append(f"its class was {visible_name(then.class_name)}, and is {now.class_name}")
    elif then.code and now.code and then.code != now.code:
        words.append(f"the code of its class {now.class_name} has changed")
    for name in dict.fromkeys([*then.settings, *now.settings]):
        if name != "class" and then.settings.get(name) != now.settings.get(name):
            was, now_is = (visible_name(parts.settings.get(name, "not there")) for parts in (then, now))
            words.append(f"its {visible_name(name)} was {was}, and is {now_is}")
    return words


def _no_change(versions: list[str]) -> list[str]:
    """Return the explanation for a Cell whose own code and settings are those that were locked."""
    if versions:
        return [f"its code and settings are as they were: what it calls has changed ({', '.join(versions)})"]
    return ["its code and settings are as they were, and so are the versions of libraries"]


def _bits_note(locked: Snapshot, now: Snapshot, report: Report) -> Iterable[str]:
    """Yield a note on the Cells that compute other bits than before, though within rounding."""
    changed: dict[str, None] = {}
    for boundary, tensor in locked.tensors.items():
        other = now.tensors.get(boundary)
        if boundary.run != locked.dtype or boundary.role not in ("output", "input_gradient") or other is None:
            continue
        if other.bits != tensor.bits and not _fails(report.cells.get(boundary.cell)):
            changed[boundary.cell] = None
    if changed:
        names = list_names([path or "(root)" for path in changed])
        yield f"{len(changed)} Cells compute other bits than when they were locked, within rounding: {names}"
    elif report.ok:
        yield "every Cell computes the same bits as when it was locked"


def _fails(cell: CellReport | None) -> bool:
    return cell is not None and cell.status == FAIL
