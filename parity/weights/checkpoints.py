"""`parity weights`: conversion of torch checkpoints to Cells' checkpoints, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...runtime.errors import UsageError
from ..support.files import require_writable
from . import map_file, transfer
from .arrangements import Array
from .checkpoint_files import CELLS, PICKLED, SAFETENSORS, Checkpoint, read_checkpoint, write_cells, write_torch
from .map_file import WeightMap
from .naming import COUNTER, UNCOUNTED, Drop
from .transfer import Link, Plan

TORCH = (*PICKLED, SAFETENSORS)


@dataclass(frozen=True)
class Conversion:
    """The result of a conversion.

    Attributes:
        back: whether it was from Cells to torch.
        links: one link for each of torch's parameters.
        shapes: shapes by name on both sides, torch's first.
        drops: parameters without a counterpart.
        notes: remarks for the user.
    """

    back: bool
    links: tuple[Link, ...]
    shapes: tuple[Mapping[str, tuple[int, ...]], Mapping[str, tuple[int, ...]]]
    drops: tuple[Drop, ...]
    notes: tuple[str, ...]


def convert_checkpoint(source: str, target: str, map_path: str | None = None) -> Conversion:
    """Convert `source` and write `target`, completely or not at all; the suffixes determine the direction.

    Raises:
        UsageError: the files have other formats, can't be read or written, or the counterpart of a parameter isn't
            known; then the message proposes lines for a map file.
    """
    back = _is_to_torch(source, target)
    require_writable(target)
    weight_map = WeightMap() if map_path is None else map_file.read_map(map_path)
    checkpoint = read_checkpoint(source)
    return _to_torch(checkpoint, target, weight_map) if back else _to_cells(checkpoint, target, weight_map)


def _is_to_torch(source: str, target: str) -> bool:
    kinds = Path(source).suffix.lower(), Path(target).suffix.lower()
    if kinds[0] in TORCH and kinds[1] == CELLS:
        return False
    if kinds[0] == CELLS and kinds[1] in TORCH:
        return True
    raise UsageError(
        f"one of the two files must be a checkpoint of Cells ({CELLS}), the other one of torch "
        f"({', '.join(TORCH)}); given {source} and {target}"
    )


def _to_cells(checkpoint: Checkpoint, target: str, weight_map: WeightMap) -> Conversion:
    arrays = checkpoint.arrays
    plan = transfer.plan_to_cells(_shapes(arrays), weight_map)
    result: dict[str, Array] = {}
    for link in plan.links:
        result |= link.to_cells(arrays)
    write_cells(target, _require_any(result, target), _record(plan, arrays))
    ties = [
        f"{' and '.join(names)} are one tensor; Cells that share it have one of the names" for names in checkpoint.ties
    ]
    return Conversion(
        False, plan.links, (_shapes(arrays), _shapes(result)), plan.drops, (*_skipped_note(checkpoint), *ties)
    )


def _to_torch(checkpoint: Checkpoint, target: str, weight_map: WeightMap) -> Conversion:
    arrays = checkpoint.arrays
    record, counters = _parse_record(checkpoint.record)
    plan = transfer.plan_to_torch(_shapes(arrays), weight_map, record)
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
    uncounted = [dropped.name for dropped in plan.drops if dropped.why == UNCOUNTED]
    counters = {name: int(arrays[name]) for name in uncounted if arrays[name].shape == ()}
    return {"parameters": {link.torch: link.to_map_value() for link in plan.links}, COUNTER: counters}


def _parse_record(record: Mapping[str, Any]) -> tuple[WeightMap, dict[str, Array]]:
    parameters, counters = record.get("parameters", {}), record.get(COUNTER, {})
    if not isinstance(parameters, dict) or not isinstance(counters, dict):
        raise UsageError("the checkpoint's metadata is damaged: the record of the conversion has another form")
    values = {name: np.asarray(value, np.int64) for name, value in counters.items() if isinstance(value, int)}
    return map_file.parse(parameters, "the checkpoint's metadata"), values
