"""What two recordings have in common: the same inputs, and values and gradients that can be compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from ....runtime.errors import UsageError
from ....runtime.ir.types import is_floating
from ....runtime.visible import visible_name
from ...options import Options
from ...report.globs import join_names, list_names
from ...results.cell_report import CellReport
from ...results.comparison import SKIPPED, UNPAIRED
from ...sides.records import INPUT, OUTPUT, OUTPUT_GRADIENT, Array, Key, Records, gradient_key, value_key
from .shards import part_of


def require_same_inputs(truth: Records, records: Records, reference: str, candidate: str) -> None:
    """Raise `UsageError` if the inputs of the network in two recordings, as far as both have them, aren't the same."""
    for key in truth.root_keys(INPUT):
        value = records.values.get(key)
        if value is None or key not in truth.values:
            continue
        expected = truth.values[key]
        name = visible_name(key.slot)
        if value.shape != expected.shape:
            raise UsageError(
                f"the recordings have different inputs: {name} has the shape {list(value.shape)} in {candidate}, "
                f"{list(expected.shape)} in {reference}\n  what to do: record both on the same inputs"
            )
        if not _agree(value, expected):
            raise UsageError(
                f"the recordings have different inputs: the values of {name} in {candidate} aren't those in "
                f"{reference}\n  what to do: record both on the same inputs; the reference's are in its recording"
            )


def same_cotangents(truth: Records, records: Records) -> bool:
    """Whether the backward passes start from the same gradients of the outputs, as far as both recordings have them."""
    keys = [key for key in truth.root_keys(OUTPUT_GRADIENT) if key in truth.values and key in records.values]
    return all(_close(records.values[key], truth.values[key]) for key in keys)


def common_part(truth: Records, records: Records, parameters: Collection[str]) -> tuple[Records, str]:
    """Return the reference's records without what the candidate didn't record, and what that is, in words.

    Args:
        truth: the reference's records.
        records: the candidate's.
        parameters: names of the parameters whose values the candidate has: if it has gradients, the lack of theirs is
            a finding.

    Raises:
        UsageError: there is nothing in common.
    """
    values = {key: array for key, array in truth.values.items() if key in records.values}
    if not values:
        candidate_cells = ", ".join(visible_name(call.path) or "(root)" for call in records.calls[:3]) or "none"
        reference_cells = ", ".join(visible_name(call.path) or "(root)" for call in truth.calls[:3])
        raise UsageError(
            f"the recordings have no Cell in common: one has {reference_cells}, ..., the other {candidate_cells}, ...\n"
            "  what to do: --map names.toml says which is which, and --propose-map names.toml makes a proposal"
        )
    known = records.gradients.parameters
    gradients = {
        name: gradient
        for name, gradient in truth.gradients.parameters.items()
        if name in known or (known and name in parameters)
    }
    updates = {name: array for name, array in truth.state.updates.items() if name in records.state.updates}
    whole = {key.path for key in truth.values} - {key.path for key in values}
    words = []
    if whole:
        some = ", ".join(visible_name(path) or "(root)" for path in sorted(whole)[:4])
        words.append(f"{len(whole)} of the Cells ({some}{', ...' if len(whole) > 4 else ''})")
    if part := sum(key.path not in whole for key in truth.values) - len(values):
        words.append(f"{part} tensor{'' if part == 1 else 's'} of others")
    if lost := sum(g is not None and name not in gradients for name, g in truth.gradients.parameters.items()):
        words.append(f"the gradients of {lost} parameter{'' if lost == 1 else 's'}")
    kept = replace(
        truth,
        values=part_of(truth.values, values),
        gradients=replace(truth.gradients, parameters=part_of(truth.gradients.parameters, gradients)),
        state=replace(truth.state, updates=updates),
    )
    return kept, join_names(words)


def comparable_part(records: Records, truth: Records, parameters: Collection[str]) -> Records:
    """Return a candidate's records without what the reference has no place for: Cells and buffers of other names.

    Args:
        records: the candidate's records.
        truth: the reference's.
        parameters: names of the reference's parameters.
    """
    values = {key: array for key, array in records.values.items() if value_key(key) in truth.values}
    gradients = {
        name: gradient
        for name, gradient in records.gradients.parameters.items()
        if name in truth.gradients.parameters or name in parameters
    }
    known = truth.state.updates | truth.state.buffers
    updates = {name: array for name, array in records.state.updates.items() if name in known}
    return replace(
        records,
        values=part_of(records.values, values),
        gradients=replace(records.gradients, parameters=part_of(records.gradients.parameters, gradients)),
        state=replace(records.state, updates=updates),
    )


def other_numbers_of_calls(truth: Records, records: Records, reference: str, candidate: str) -> str:
    """Return a remark on the Cells that both recorded, and one called more often; empty if there are none."""
    reference_calls, candidate_calls = ({key[:2] for key in side_records.values} for side_records in (truth, records))
    counts = [Counter(path for path, _ in calls) for calls in (reference_calls, candidate_calls)]
    differing = [path for path in counts[0] if counts[1][path] not in (0, counts[0][path])]
    cells = [f"{visible_name(path) or '(root)'} ({counts[0][path]} and {counts[1][path]})" for path in differing]
    return f"the numbers of calls in {reference} and in {candidate} differ: {list_names(cells)}" if cells else ""


def outputs_not_compared(
    truth: Records, cells: Mapping[str, CellReport], reference: str, candidate: str, options: Options
) -> str:
    """Return why nothing is known of the networks as a whole; empty if all outputs of the reference were compared.

    Args:
        truth: the reference's records.
        cells: what was compared.
        reference: name of the reference's recording.
        candidate: name of the candidate's.
        options: the Cells that were chosen; nothing is asked of the network's outputs if it isn't among them.
    """
    if not options.selects(""):
        return ""
    outputs = [
        (call, slot) for (path, call, kind), own in truth.slots.items() if (path, kind) == ("", OUTPUT) for slot in own
    ]
    root = cells.get("")
    compared = {(c.call, c.tensor) for c in root.comparisons if c.kind == "output"} if root is not None else set()
    lost = [
        visible_name(slot) + (f" of call {call}" if call else "")
        for call, slot in outputs
        if (call, slot) not in compared
    ]
    if outputs and not lost:
        return ""
    if not outputs:
        return f"{reference} has no output of the network itself"
    which = "the network's outputs" if len(lost) == len(outputs) else f"the network's output {list_names(lost)}"
    return f"{candidate} doesn't have {which}"


def recorded_around(path: str, recorded: Collection[str]) -> str:
    """Return the Cell, or the innermost one around it that the candidate recorded: it computes what the Cell does."""
    while path and path not in recorded:
        path = path.rpartition(".")[0]
    return path


def recorded_owners(owner_of: Mapping[str, str], truth: Records) -> dict[str, str]:
    """Return the Cell to judge each parameter in, of those that both recorded."""
    recorded = {key.path for key in truth.values}
    return {name: recorded_around(path, recorded) for name, path in owner_of.items()}


def set_presence(cells: Mapping[str, CellReport], options: Options, recorded: Collection[str]) -> None:
    """Say of Cells why they aren't judged: they were left out, or not recorded on both sides."""
    for path, cell in cells.items():
        if not options.selects(path):
            cell.presence, cell.comparisons = SKIPPED, []
        elif path and path not in recorded and not cell.comparisons and cell.presence is None:
            cell.presence = UNPAIRED


def _agree(value: Array, expected: Array) -> bool:
    """Whether two arrays are the same numbers, in the less precise of their dtypes."""
    if not (is_floating(value.dtype) and is_floating(expected.dtype)):
        return bool(np.array_equal(value, expected))
    narrow = min(value.dtype, expected.dtype, key=lambda dtype: dtype.itemsize)
    with np.errstate(over="ignore"):
        return bool(np.array_equal(value.astype(narrow), expected.astype(narrow), equal_nan=True))


def _close(value: Array, expected: Array) -> bool:
    """Whether gradients that a loss computes may be the same, up to rounding in half precision or float32."""
    if value.shape != expected.shape:
        return False
    tolerance = 1e-2 if value.dtype.itemsize == 2 else 1e-4
    largest = float(np.abs(expected.astype(np.float64)).max(initial=0.0))
    return float(np.abs(value.astype(np.float64) - expected).max(initial=0.0)) <= tolerance * largest


def with_whole_gradients(records: Records, truth: Records) -> tuple[Records, str]:
    """Return a candidate's records with those gradients of inputs that can be compared, and a remark on the others.

    The parts of a tensor that the reference takes once are added. Where the inputs differ otherwise, the gradient of
    each may be a part of another's, and is left out: it counts in the Cell around.

    Args:
        records: the candidate's records, under the reference's names.
        truth: the reference's.
    """
    added: dict[Key, Array] = {}
    left_out: set[Key] = set()
    for (path, call, kind), names in truth.slots.items():
        given = records.slots.get((path, call, INPUT), [])
        if kind != INPUT or not given or set(given) == set(names):
            continue
        of_slot = {slot: gradient_key(Key(path, call, INPUT, slot)) for slot in [*names, *given]}
        reference_slots = {slot for slot, key in of_slot.items() if key in truth.values}
        candidate_slots = {slot for slot, key in of_slot.items() if key in records.values}
        for slot in candidate_slots - set(names):
            if (same := _same_input(path, call, slot, names, records)) in candidate_slots:
                whole = of_slot[same]
                added[whole] = added.get(whole, records.values[whole]) + records.values[of_slot[slot]]
                candidate_slots.discard(slot)
        if reference_slots != candidate_slots:
            left_out |= {of_slot[slot] for slot in candidate_slots}
    if not added and not left_out:
        return records, ""
    values = {key: added.get(key, array) for key, array in records.values.items() if key not in left_out}
    cells = list_names(sorted({visible_name(key.path) or "(root)" for key in left_out}))
    remark = (
        f"the gradients of the inputs of {cells} count in the Cell around: it takes another number of tensors there"
    )
    return replace(records, values=part_of(records.values, values)), remark if left_out else ""


def _same_input(path: str, call: int, slot: str, names: list[str], records: Records) -> str | None:
    """Return the first of these inputs of a call that has the same values as another; None if there is none."""
    value = records.values.get(Key(path, call, INPUT, slot))
    others = {name: records.values.get(Key(path, call, INPUT, name)) for name in names}
    equal = (name for name, other in others.items() if value is not None and other is not None)
    return next((name for name in equal if np.array_equal(value, others[name])), None)  # type: ignore[arg-type]
