"""Writing an ONNX model with its external data file, so that a model never refers to the tensors of another one.

A data file is never changed: a new model gets a new one with an unused name. The data file is moved into place first,
then the model that refers to it, and only then is the old data file removed. An interruption leaves either the old
model or the new one, each with its own tensors. A concurrent reader sees one of the two, or a missing data file, which
is an error, but never the wrong tensors. If a kill leaves a data file without its model, the next write beside it
removes the data file.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

import onnx

from ..storage.files import atomic_path, is_device, sync_folder
from ..storage.temporary import note_early_move, note_late_removal
from ..visible import encodable_name


@contextlib.contextmanager
def place_model(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Like `storage.files.atomic_path`, for an ONNX model that may have its tensors in `<name>.data` beside it.

    If that name is taken, the data file is named `<name>.<16 hexadecimal digits>.data`.
    """
    if is_device(Path(path)):
        yield Path(path)
        return
    target = Path(os.path.realpath(path))
    before = data_file(target)
    placed: Path | None = None
    try:
        with atomic_path(path) as inside:
            yield inside
            data = inside.with_name(f"{inside.name}.data")
            if data.exists():
                placed = _place(data, target)
                if placed.name != data.name:
                    model = onnx.load(inside, load_external_data=False)
                    set_data_file(model, placed.name)
                    inside.write_bytes(model.SerializeToString())
            if before is not None:
                note_late_removal(inside, before)
    except BaseException:
        if placed is not None and data_file(target) != placed:
            placed.unlink(missing_ok=True)
        raise
    if before is not None and before != placed:
        before.unlink(missing_ok=True)


def data_file(path: Path) -> Path | None:
    """Return the data file of a model if it has one with a name from `place_model`, else None.

    The model isn't parsed: its bytes are searched for the entry that names an existing file.
    """
    pattern = re.compile(re.escape(path.name) + r"(\.[0-9a-f]{16})?\.data")
    beside = [file for file in path.parent.iterdir() if pattern.fullmatch(file.name)] if path.is_file() else []
    if not beside or not path.stat().st_size:
        return None
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for data in beside:
            entry = onnx.StringStringEntryProto(key="location", value=encodable_name(data.name))
            if content.find(entry.SerializeToString()) >= 0:
                return data
    return None


def model_size(path: Path) -> int:
    """Return the size of a model with its tensors, in bytes."""
    data = data_file(path)
    return path.stat().st_size + (0 if data is None else data.stat().st_size)


def move_model(source: Path, target: Path) -> None:
    """Move a model to where there is none, with its data file if it has one."""
    data = data_file(source)
    if data is None:
        target.write_bytes(source.read_bytes())
        source.unlink()
        return
    model = onnx.load(source, load_external_data=False)
    data_path = target.with_name(f"{target.name}.data")
    set_data_file(model, data_path.name)
    shutil.move(data, data_path)
    target.write_bytes(model.SerializeToString())
    shutil.copymode(target, data_path)  # onnx writes a data file that its owner alone may read
    source.unlink()


def set_data_file(model: onnx.ModelProto, name: str) -> None:
    """Set the file name of the model's external tensors."""
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = name


def _place(data: Path, target: Path) -> Path:
    """Move the data file to its place beside the model, under a new name."""
    with data.open("rb") as file:
        os.fsync(file.fileno())
    note_early_move(data)
    data_path = target.with_name(f"{target.name}.data")
    try:
        os.link(data, data_path)
        data.unlink()
    except OSError:  # the name is taken, or the file system has no links
        data_path = target.with_name(f"{target.name}.{secrets.token_hex(8)}.data")
        data.replace(data_path)
    sync_folder(target.parent)
    return data_path
