"""`parity weights`: a checkpoint of torch becomes one of Cells, or the other way."""

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
from .checkpoint_files import CELLS, PICKLED, SAFETENSORS, Checkpoint, read, write_cells, write_torch
from .map_file import WeightMap
from .naming import COUNTER, UNCOUNTED, Dropped
from .transfer import Link, Plan

TORCH = (*PICKLED, SAFETENSORS)


@dataclass(frozen=True)
class Conversion:
    """What was made of what.

    Attributes:
        back: whether it went from Cells to torch.
        links: one for each of torch's parameters.
        shapes: of all names on both sides, torch's first.
        dropped: what has no counterpart.
        notes: what else to say.
    """

    back: bool
    links: tuple[Link, ...]
    shapes: tuple[Mapping[str, tuple[int, ...]], Mapping[str, tuple[int, ...]]]
    dropped: tuple[Dropped, ...]
    notes: tuple[str, ...]


def convert(source: str, target: str, map_path: str | None = None) -> Conversion:
    """Write `target`, whole or not at all, made of `source`; the endings of the files say which is which.

    Raises:
        UsageError: the files are of other kinds, can't be read or written, or what becomes of some parameter isn't
            known; the message says what to write into a map file.
    """
    back = _goes_back(source, target)
    require_writable(target)
    given = WeightMap() if map_path is None else map_file.read(map_path)
    checkpoint = read(source)
    return _to_torch(checkpoint, target, given) if back else _to_cells(checkpoint, target, given)


def _goes_back(source: str, target: str) -> bool:
    kinds = Path(source).suffix.lower(), Path(target).suffix.lower()
    if kinds[0] in TORCH and kinds[1] == CELLS:
        return False
    if kinds[0] == CELLS and kinds[1] in TORCH:
        return True
    raise UsageError(
        f"one of the two files must be a checkpoint of Cells ({CELLS}), the other one of torch "
        f"({', '.join(TORCH)}); given {source} and {target}"
    )


def _to_cells(checkpoint: Checkpoint, target: str, given: WeightMap) -> Conversion:
    arrays = checkpoint.arrays
    plan = transfer.to_cells(_shapes(arrays), given)
    made: dict[str, Array] = {}
    for link in plan.links:
        made |= link.to_cells(arrays)
    write_cells(target, _some(made, target), _record(plan, arrays))
    ties = [
        f"{' and '.join(names)} are one tensor; Cells that share it have one of the names" for names in checkpoint.ties
    ]
    return Conversion(
        False, plan.links, (_shapes(arrays), _shapes(made)), plan.dropped, (*_left_out(checkpoint), *ties)
    )


def _to_torch(checkpoint: Checkpoint, target: str, given: WeightMap) -> Conversion:
    arrays = checkpoint.arrays
    record, counters = _recorded(checkpoint.record)
    plan = transfer.to_torch(_shapes(arrays), given, record)
    made: dict[str, Array] = {}
    for link in plan.links:
        made |= link.to_torch(arrays)
    modules = {name.rpartition(".")[0] for name in made}
    restored = {name: value for name, value in counters.items() if name.rpartition(".")[0] in modules}
    made |= restored
    write_torch(target, _some(made, target))
    notes = [f"{len(restored)} {COUNTER} restored, as recorded when the checkpoint was made"] if restored else []
    return Conversion(
        True, plan.links, (_shapes(made), _shapes(arrays)), plan.dropped, (*_left_out(checkpoint), *notes)
    )


def _shapes(arrays: Mapping[str, Array]) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in arrays.items()}


def _some(arrays: dict[str, Array], target: str) -> dict[str, Array]:
    if not arrays:
        raise UsageError(f"{target} was not written: nothing would be in it, all is dropped")
    return arrays


def _left_out(checkpoint: Checkpoint) -> list[str]:
    return [f"left out: {', '.join(checkpoint.left_out)}"] if checkpoint.left_out else []


def _record(plan: Plan, arrays: Mapping[str, Array]) -> dict[str, Any]:
    """What names alone don't tell on the way back."""
    counted = [dropped.name for dropped in plan.dropped if dropped.why == UNCOUNTED]
    counters = {name: int(arrays[name]) for name in counted if arrays[name].shape == ()}
    return {"parameters": {link.torch: link.as_form() for link in plan.links}, COUNTER: counters}


def _recorded(record: Mapping[str, Any]) -> tuple[WeightMap, dict[str, Array]]:
    parameters, counters = record.get("parameters", {}), record.get(COUNTER, {})
    if not isinstance(parameters, dict) or not isinstance(counters, dict):
        raise UsageError("the checkpoint's metadata is damaged: it says what became of what in another way")
    values = {name: np.asarray(value, np.int64) for name, value in counters.items() if isinstance(value, int)}
    return map_file.parse(parameters, "the checkpoint's metadata"), values
