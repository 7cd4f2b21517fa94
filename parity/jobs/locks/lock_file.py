"""Lock files: snapshots as text, one line for each tensor, to be kept in git."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from ....runtime.errors import UsageError
from ....runtime.visible import visible_text
from ...dtypes import WORKING_DTYPES
from ...sides.names import ONNXRUNTIME
from ...support.files import write_text
from .contents import SKETCH_SIZE, TORCH, Boundary, CellParts, Snapshot, Tensor

FORMAT, VERSION = "cellbridge-lock", 1
LARGEST = 2**28
"""The most bytes that a lock file may have."""


@dataclass(frozen=True)
class Lock:
    """What a lock file says.

    Attributes:
        versions: versions of the libraries that it was made with, by name.
        snapshots: one for each model, in order.
    """

    versions: Mapping[str, str]
    snapshots: Sequence[Snapshot]


LARGEST_TENSOR = 2**48
SIDES = (TORCH, ONNXRUNTIME)
UNTRACKED = "untracked"
"""At the end of a tensor's line, if no gradient of it is computed."""


def write_lock(lock: Lock, path: str | PathLike[str]) -> None:
    """Write a lock file.

    Raises:
        UsageError: it can't be written.
    """
    head = {"format": FORMAT, "version": VERSION, "versions": dict(sorted(lock.versions.items()))}
    models = ",\n".join(_model_text(snapshot) for snapshot in lock.snapshots)
    parts = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in head.items()]
    write_text(path, "{\n" + ",\n".join([*parts, f'"models": [\n{models}\n]']) + "\n}\n")


def _model_text(snapshot: Snapshot) -> str:
    cells = [
        {
            "cell": path,
            "class": parts.class_name,
            "code": parts.code,
            "settings": dict(parts.settings),
            "error": None if parts.error is None else float(f"{parts.error:.2g}"),
        }
        for path, parts in snapshot.cells.items()
    ]
    tensors = [
        [*where, tensor.dtype, list(tensor.shape), tensor.bits, *([] if tensor.tracked else [UNTRACKED])]
        for where, tensor in snapshot.tensors.items()
    ]
    head = {
        "model": snapshot.model,
        "side": snapshot.side,
        "dtype": snapshot.dtype,
        "train": snapshot.train,
        "seed": snapshot.seed,
        "gradients": snapshot.grads,
    }
    parts = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in head.items()]
    lists: dict[str, list[Any]] = {"cells": cells, "calls": snapshot.calls, "tensors": tensors}
    for name, entries in lists.items():
        parts.append(f'"{name}": [\n' + ",\n".join(map(json.dumps, entries)) + "\n]")
    sketches = (f'"{digest}": {json.dumps([_json_number(x) for x in xs])}' for digest, xs in snapshot.sketches.items())
    parts.append('"sketches": {\n' + ",\n".join(sketches) + "\n}")
    return "{\n" + ",\n".join(parts) + "\n}"


def _json_number(number: float) -> float | str:
    """Return a number for JSON, which has no infinities and no NaN: they are strings."""
    return number if math.isfinite(number) else str(number)


def read_lock(path: str | PathLike[str]) -> Lock:
    """Read a lock file, which is data: nothing in it is run.

    Raises:
        UsageError: there is none, or it isn't one, or of another version.
    """
    file = Path(path)
    if file.is_dir():
        raise UsageError(f"needed a lock file, given the folder {path}")
    if not file.is_file():
        raise UsageError(f"there is no lock file {path}\n  what to do: parity lock MODEL writes it")
    if file.stat().st_size > LARGEST:
        raise UsageError(f"{path} has {file.stat().st_size} bytes; a lock file has at most {LARGEST}")
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        reason = "it isn't text" if isinstance(error, UnicodeDecodeError) else error
        raise UsageError(f"{path} isn't a lock file: {reason}\n  what to do: {_AGAIN}") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise UsageError(f"{path} isn't a lock file: it doesn't say that its format is {FORMAT}")
    if data.get("version") != VERSION:
        version = visible_text(str(data.get("version")))[:40]
        raise UsageError(
            f"{path} has version {version} of the format, and this release reads version {VERSION}: {_AGAIN}"
        )
    try:
        versions = {str(name): str(version) for name, version in data["versions"].items()}
        return Lock(versions, [_snapshot(model) for model in data["models"]])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{path} is damaged: {type(error).__name__}: {error}\n  what to do: {_AGAIN}") from error


_AGAIN = "restore it from git, or write it again with parity lock"


def _snapshot(data: Any) -> Snapshot:
    """Return a snapshot, of whose fields the types are checked."""
    train, grads = data["train"], data["gradients"]
    if train not in (None, True, False) or grads not in (True, False):
        raise TypeError("train and gradients must be true or false")
    dtype = _text(data["dtype"])
    if dtype not in WORKING_DTYPES:
        raise ValueError(f"there is no working dtype {dtype}")
    side = _text(data.get("side", TORCH))
    if side not in SIDES:
        raise ValueError(f"there is no side {side}")
    snapshot = Snapshot(_text(data["model"]), dtype, train, _count(data["seed"]), grads, side)
    for cell in data["cells"]:
        settings = {_text(name): _text(value) for name, value in cell["settings"].items()}
        error = None if cell.get("error") is None else float(_number(cell["error"]))
        snapshot.cells[_text(cell["cell"])] = CellParts(_text(cell["class"]), _text(cell["code"]), settings, error)
    for call in data["calls"]:
        words = {name: _text(call[name]) for name in ("run", "cell", "class")}
        parent = None if call["parent"] is None else _count(call["parent"])
        snapshot.calls.append({**words, "index": _count(call["index"]), "parent": parent})
    snapshot.sketches = {_text(digest): [_number(x) for x in xs] for digest, xs in data["sketches"].items()}
    for entry in data["tensors"]:
        run, cell, call, role, slot, dtype, shape, digest, *rest = entry
        tensor = Tensor(_text(dtype), tuple(_count(size) for size in shape), _text(digest), tracked=not rest)
        if math.prod(tensor.shape) >= LARGEST_TENSOR:
            raise ValueError(f"{tensor.bits} has a shape of more than {LARGEST_TENSOR} elements")
        if tensor.bits and len(snapshot.sketches[tensor.bits]) > SKETCH_SIZE:
            raise ValueError(f"{tensor.bits} has more than {SKETCH_SIZE} numbers")
        snapshot.tensors[Boundary(_text(run), _text(cell), _count(call), _text(role), _text(slot))] = tensor
    return snapshot


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > 10_000:
        raise TypeError(f"needed a string, given {str(value)[:40]}")
    return value


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**53:
        raise TypeError(f"needed a whole number, given {str(value)[:40]}")
    return value


def _number(value: Any) -> float | int:
    if value in ("inf", "-inf", "nan"):
        return float(value)
    largest = 2.0**1023 if isinstance(value, float) else 2**63
    if not isinstance(value, (int, float)) or isinstance(value, bool) or abs(value) >= largest:
        raise TypeError(f"needed a number, given {str(value)[:40]}")
    return value
