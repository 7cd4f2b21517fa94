"""`assemble`: what several processes recorded, put together as one network would have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ....recorder import Recorder
from ...checking.recordings.recording import RecordedRun, Recording, open_recording
from ...sides.records import INPUT_GRADIENT, OUTPUT_GRADIENT, Array, Key, Records
from ..recording.write import record_calls


def assemble(folder: Path, ranks: int, reference: Recording, path: Path, *, splits: bool) -> dict[str, None]:
    """Write a recording of what all processes recorded, as a recording of one network.

    A value of which each process has the whole is that of the process that differs most from the reference. A part of
    a batch, or of another axis, is put together with the others in the order of the processes. Where each process has
    a part of the batch and the loss is a mean over it, gradients of values are divided by the number of processes.

    Args:
        folder: where the processes wrote.
        ranks: their number.
        reference: a recording of the network on one process.
        path: the folder to write.
        splits: whether each process had a part of the batch.

    Returns:
        Cells, parameters and buffers of which each process has the whole, and another one than others.
    """
    parts = [open_recording(folder / f"rank-{rank}") for rank in range(ranks)]
    differences: dict[str, None] = {}
    index = parts[0].index
    with Recorder(path, model=index.model, framework="torch", dtype=index.dtype, mode=index.mode) as recorder:
        for dtype in parts[0].runs:
            with recorder.run(dtype):
                for step in parts[0].steps:
                    truth = reference.run("float64", step)
                    runs = [part.run(dtype, step, like=truth.records) for part in parts]
                    _write(recorder, truth, runs, ranks if splits else 1, differences)
                    recorder.step()
    return differences


def _write(
    recorder: Recorder,
    truth: RecordedRun,
    runs: Sequence[RecordedRun],
    scale: int,
    differences: dict[str, None],
) -> None:
    """Write what was recorded in one run and step."""
    first: Records = runs[0].records
    record_calls(recorder, first.calls)
    for key in first.values:
        if all(key in run.records.values for run in runs) and key in truth.records.values:
            values = [run.records.values[key] for run in runs]
            expected = truth.records.values[key]
            divisor = scale if key.kind in (INPUT_GRADIENT, OUTPUT_GRADIENT) else 1
            _add(recorder, key, values, expected, divisor, differences)
    for key in sorted(first.boundaries.untracked):
        recorder.mark_untracked(key.path, key.call, key.kind, key.slot)
    for name in truth.parameters:
        values = [run.parameters[name] for run in runs if name in run.parameters]
        if len(values) == len(runs):
            whole = _whole(values, truth.parameters[name])
            recorder.parameter(name, values[0] if whole is None else whole)
            if values[0].shape == truth.parameters[name].shape and not _alike(values):
                differences[name] = None
    for name, gradient in truth.records.gradients.parameters.items():
        by_run = [run.records.gradients.parameters.get(name) for run in runs]
        gradients = [part for part in by_run if part is not None]
        if gradient is not None and len(gradients) == len(runs):
            whole = _whole(gradients, gradient)
            recorder.parameter(name, gradient=gradients[0] if whole is None else whole)
    _write_updates(recorder, truth.records.state.updates, runs, differences)


def _write_updates(
    recorder: Recorder, updates: Mapping[str, Array], runs: Sequence[RecordedRun], differences: dict[str, None]
) -> None:
    for name, expected in updates.items():
        if all(name in run.records.state.updates for run in runs):
            values = [run.records.state.updates[name] for run in runs]
            recorder.buffer(name, update=_worst(values, expected))
            if not _alike(values):
                differences[name] = None


def _add(
    recorder: Recorder, key: Key, values: Sequence[Array], expected: Array, divisor: int, differences: dict[str, None]
) -> None:
    """Add the value at a boundary, if it is known how the parts make it."""
    whole = _whole(values, expected)
    if whole is None:
        return
    if values[0].shape == expected.shape and not _alike(values):
        differences[key.path] = None
    recorder.add_tensor(key.path, key.call, key.kind, key.slot, whole / divisor if divisor > 1 else whole)


def _whole(values: Sequence[Array], expected: Array) -> Array | None:
    """Return a value put together from those of all processes; None if they don't make one of the expected shape."""
    if all(value.shape == expected.shape for value in values):
        return _worst(values, expected)
    if any(value.ndim != expected.ndim for value in values):
        return None
    axes = [axis for axis in range(expected.ndim) if values[0].shape[axis] != expected.shape[axis]]
    if len(axes) != 1 or sum(value.shape[axes[0]] for value in values) != expected.shape[axes[0]]:
        return None
    result: Array = np.concatenate(values, axes[0])
    return result


def _worst(values: Sequence[Array], expected: Array) -> Array:
    """Return the value that differs most from the expected one; the first if none has its shape."""
    if any(value.shape != expected.shape for value in values) or expected.dtype.kind not in "fc":
        return values[0]
    with np.errstate(all="ignore"):
        errors = [float(np.abs(value - expected).max(initial=0.0)) for value in values]
    return values[int(np.argmax(np.nan_to_num(errors, nan=np.inf)))]


def _alike(values: Sequence[Array]) -> bool:
    return all(np.array_equal(values[0], value, equal_nan=value.dtype.kind == "f") for value in values[1:])
