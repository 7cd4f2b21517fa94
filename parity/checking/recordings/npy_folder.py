"""Folders of `.npy` files as recordings: `CELL/output.0.npy`, for programs in C++ and anything else.

candidate/layers.0/input.x.npy             the input x of the first call of the Cell layers.0
candidate/layers.0/output.0.npy            its output
candidate/layers.0/output_gradient.0.npy   the gradient of the loss with respect to it
candidate/layers.0@1/output.0.npy          the same of its second call
candidate/input.0.npy                      an input of the network itself
candidate/parameter.fc.weight.npy          a parameter; parameter_gradient, buffer and buffer_update alike
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from ....recorder import CODES
from ....runtime.errors import UsageError
from ...sides.records import Array
from .index import CELL_ROLES, ROLES, CallEntry, Index, TensorEntry
from .shards import Shards

_NAME = re.compile(r"([a-z_]+)(?:\.(.+))?\.npy")


def has_arrays(folder: Path) -> bool:
    """Whether there is a `.npy` file in a folder or the folders in it."""
    return any(folder.glob("*.npy")) or any(folder.glob("*/*.npy"))


def read_folder(folder: Path) -> tuple[Index, Shards]:
    """Read a folder of `.npy` files as a recording of one run: its index and its files.

    Raises:
        UsageError: a file has a name that says nothing, or isn't an array.
    """
    shards = _Arrays(folder)
    tensors: list[TensorEntry] = []
    for path in sorted((*folder.glob("*.npy"), *folder.glob("*/*.npy")), key=_time):
        match = _NAME.fullmatch(path.name)
        cell, _, call = (path.parent.name if path.parent != folder else "").partition("@")
        if match is None or match[1] not in ROLES or not (call == "" or re.fullmatch("[0-9]{1,9}", call)):
            raise UsageError(
                f"{path}: the name of the file must be CELL/ROLE.NAME.npy, such as layers.0/output.0.npy, or "
                f"parameter.NAME.npy; the roles are {', '.join(ROLES)}"
            )
        role, slot = match[1], match[2] or "0"
        name = str(path.relative_to(folder))
        array = shards.load(name)
        if role not in CELL_ROLES and cell:
            slot = f"{cell}.{slot}"
        in_cell = cell if role in CELL_ROLES else ""
        number = int(call or 0)
        tensors.append(
            TensorEntry("", 0, in_cell, number, role, slot, array.dtype.name, array.shape, name, "", "", None)
        )
    dtypes = [entry.dtype for entry in tensors if entry.role == "output"] or [entry.dtype for entry in tensors]
    run = next((dtype for dtype in dtypes if dtype in ("float32", "float64", "float16")), "float32")
    tensors = [replace(entry, run=run) for entry in tensors]
    cells = dict.fromkeys((entry.cell, entry.call) for entry in tensors if entry.role in CELL_ROLES)
    calls = [CallEntry(run, 0, cell, call, "", None) for cell, call in cells]
    index = Index(folder, True, "", "", run, "eval", None, 1, {}, calls, tensors)
    return index, shards


def _time(path: Path) -> tuple[int, str]:
    """Return a sort key by the time of writing, which is the order of the calls."""
    return path.stat().st_mtime_ns, path.name


class _Arrays(Shards):
    """The `.npy` files of a folder."""

    def load(self, name: str) -> Array:
        """Return the array of a file, mapped into memory."""
        path = self.folder / name
        try:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise UsageError(f"{path} isn't an array of numbers: {error}") from error
        if array.dtype.name not in CODES:
            raise UsageError(f"{path}: arrays of {array.dtype} can't be judged; supported are {', '.join(CODES)}")
        self._arrays[name, ""] = np.asarray(array)
        return self._arrays[name, ""]
