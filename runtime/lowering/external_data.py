"""Where the files of an ONNX model belong: a model in a place never refers to the tensors of another one.

A file of tensors is never changed: a new model gets a new one, under a name that is free. It is put in place first,
then the model that refers to it; only then what the old model referred to is removed. Whoever is stopped in between
leaves the old model with its tensors, or the new one with its own; whoever reads in between finds one of the two, or no
file of tensors, which is an error, but never the wrong one.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

import onnx

from ..storage.files import atomic_path, is_device, sync_folder
from ..visible import encodable_name


@contextlib.contextmanager
def place_model(path: str | os.PathLike[str]) -> Iterator[Path]:
    """As `runtime.files.atomic_path`, for an ONNX model that may have its tensors in `<name>.data` beside it.

    Where that name is taken, the file of tensors is called `<name>.<16 hexadecimal digits>.data` in the end.
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
    except BaseException:
        if placed is not None and data_file(target) != placed:
            placed.unlink(missing_ok=True)
        raise
    if before is not None and before != placed:
        before.unlink(missing_ok=True)


def data_file(path: Path) -> Path | None:
    """The file that a model has its tensors in, if it is one that `place_model` puts beside it; None if there is none.

    The model isn't parsed: whatever it holds, its bytes are searched for the entry that names a file which is there.
    """
    ours = re.compile(re.escape(path.name) + r"(\.[0-9a-f]{16})?\.data")
    beside = [file for file in path.parent.iterdir() if ours.fullmatch(file.name)] if path.is_file() else []
    if not beside or not path.stat().st_size:
        return None
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for data in beside:
            entry = onnx.StringStringEntryProto(key="location", value=encodable_name(data.name))
            if content.find(entry.SerializeToString()) >= 0:
                return data
    return None


def set_data_file(model: onnx.ModelProto, name: str) -> None:
    """Let the tensors that are beside the model be in the file of this name."""
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = name


def _place(data: Path, target: Path) -> Path:
    """Move the tensors beside the model's place, under a name that nothing has yet."""
    with data.open("rb") as written:
        os.fsync(written.fileno())
    place = target.with_name(f"{target.name}.data")
    try:
        os.link(data, place)
        data.unlink()
    except OSError:  # it is taken, or the file system has no links
        place = target.with_name(f"{target.name}.{secrets.token_hex(8)}.data")
        data.replace(place)
    sync_folder(target.parent)
    return place
