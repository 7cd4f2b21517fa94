"""`parity weights`: conversion of torch checkpoints to checkpoints of Cells or of Flax, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...runtime.errors import UsageError
from ..support.files import require_writable
from . import map_file, transfer
from .arrangements import Array
from .checkpoint_files import (
    CELLS,
    SAFETENSORS,
    Checkpoint,
    read_checkpoint,
    write_cells,
    write_flax,
    write_torch,
)
from .conversion import Conversion
from .map_file import WeightMap
from .naming import COUNTER, OF_CELLS, UNCOUNTED, Habits
from .naming_flax import OF_FLAX
from .naming_flax import UNCOUNTED as UNCOUNTED_BY_FLAX
from .port_checkpoint import convert_by_map
from .readers.torch_files import PICKLED
from .transfer import Plan

TORCH = (*PICKLED, SAFETENSORS)
FLAX = "flax"


def convert_checkpoint(source: str, target: str, map_path: str | None = None, to: str | None = None) -> Conversion:
    """Convert `source` and write `target`, completely or not at all.

    Args:
        source: the file to read; with a map for a port, any checkpoint that `open_checkpoint` reads.
        target: the file to write.
        map_path: a map file.
        to: "flax" to convert from torch to variables of Flax, in a safetensors file; "torch" to convert back. None for
            Cells, where the suffixes determine the direction. Between two files of torch, the map says what a port's
            tensors are made of.

    Raises:
        UsageError: the files have other formats, can't be read or written, or the counterpart of a parameter isn't
            known; then the message proposes lines for a map file.
    """
    is_port = to is None and map_path is not None and _are_of_ports(source, target)
    back = not is_port and (_is_to_torch(source, target) if to is None else _is_from_flax(source, target, to))
    require_writable(target)
    weight_map = WeightMap() if map_path is None else map_file.read_map(map_path)
    if weight_map.assemblies and not is_port:
        raise UsageError(
            f"{weight_map.where}: {next(iter(weight_map.assemblies))!r}: a line with `from` says what a tensor of a "
            "port in torch is made of; given are checkpoints of another kind"
        )
    if is_port:
        return convert_by_map(source, target, weight_map)
    checkpoint = read_checkpoint(source)
    habits = OF_CELLS if to is None else OF_FLAX
    convert = _to_torch if back else _to_other
    return replace(convert(checkpoint, target, weight_map, habits), other=habits.name)


def _are_of_ports(source: str, target: str) -> bool:
    """Whether a map says what the tensors of a port are made of: no checkpoint is one of Cells."""
    return Path(source).suffix.lower() != CELLS and Path(target).suffix.lower() in TORCH


def _is_to_torch(source: str, target: str) -> bool:
    kinds = Path(source).suffix.lower(), Path(target).suffix.lower()
    if kinds[0] in TORCH and kinds[1] == CELLS:
        return False
    if kinds[0] == CELLS and kinds[1] in TORCH:
        return True
    raise UsageError(
        f"one of the two files must be a checkpoint of Cells ({CELLS}), the other one of torch "
        f"({', '.join(TORCH)}); given {source} and {target}"
        + ("\n  what to do: for a port in torch, give --map" if _are_of_ports(source, target) else "")
    )


def _is_from_flax(source: str, target: str, to: str) -> bool:
    kinds = Path(source).suffix.lower(), Path(target).suffix.lower()
    flax, torch = kinds[::-1] if to == FLAX else kinds
    if flax == SAFETENSORS and torch in TORCH:
        return to != FLAX
    raise UsageError(
        f"--to {to}: variables of Flax are in a {SAFETENSORS} file, and torch's checkpoint in one of "
        f"{', '.join(TORCH)}; given {source} and {target}"
    )


def _to_other(checkpoint: Checkpoint, target: str, weight_map: WeightMap, habits: Habits) -> Conversion:
    arrays = checkpoint.arrays
    plan = transfer.plan_to_cells(_shapes(arrays), weight_map, habits)
    result: dict[str, Array] = {}
    for link in plan.links:
        result |= link.to_cells(arrays)
    write = write_cells if habits is OF_CELLS else write_flax
    write(target, _require_any(result, target), _record(plan, arrays))
    ties = [
        f"{' and '.join(names)} are one tensor; a network that shares it has one of the names"
        for names in checkpoint.ties
    ]
    return Conversion(
        False, plan.links, (_shapes(arrays), _shapes(result)), plan.drops, (*_skipped_note(checkpoint), *ties)
    )


def _to_torch(checkpoint: Checkpoint, target: str, weight_map: WeightMap, habits: Habits) -> Conversion:
    arrays = checkpoint.arrays
    record, counters = _parse_record(checkpoint.record)
    plan = transfer.plan_to_torch(_shapes(arrays), weight_map, record, habits)
    result: dict[str, Array] = {}
    for link in plan.links:
        result |= link.to_torch(arrays)
    modules = {name.rpartition(".")[0] for name in result}
    counts = {name: value for name, value in counters.items() if name.rpartition(".")[0] in modules}
    result |= counts
    write_torch(target, _require_any(result, target))
    notes = [f"{len(counts)} {COUNTER} restored, as recorded when the checkpoint was made"] if counts else []
    return Conversion(
        True, plan.links, (_shapes(result), _shapes(arrays)), plan.drops, (*_skipped_note(checkpoint), *notes)
    )


def _shapes(arrays: Mapping[str, Array]) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in arrays.items()}


def _require_any(arrays: dict[str, Array], target: str) -> dict[str, Array]:
    if not arrays:
        raise UsageError(f"{target} was not written: it would be empty, since every parameter is dropped")
    return arrays


def _skipped_note(checkpoint: Checkpoint) -> list[str]:
    return [f"left out: {', '.join(checkpoint.skipped)}"] if checkpoint.skipped else []


def _record(plan: Plan, arrays: Mapping[str, Array]) -> dict[str, Any]:
    """Return the information for the conversion back that names don't determine."""
    uncounted = [dropped.name for dropped in plan.drops if dropped.why in (UNCOUNTED, UNCOUNTED_BY_FLAX)]
    counters = {name: int(arrays[name]) for name in uncounted if arrays[name].shape == ()}
    return {"parameters": {link.torch: link.to_map_value() for link in plan.links}, COUNTER: counters}


def _parse_record(record: Mapping[str, Any]) -> tuple[WeightMap, dict[str, Array]]:
    parameters, counters = record.get("parameters", {}), record.get(COUNTER, {})
    if not isinstance(parameters, dict) or not isinstance(counters, dict):
        raise UsageError("the checkpoint's metadata is damaged: the record of the conversion has another form")
    values = {name: np.asarray(value, np.int64) for name, value in counters.items() if isinstance(value, int)}
    return map_file.parse(parameters, "the checkpoint's metadata"), values
