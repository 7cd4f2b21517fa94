"""The index of a recording, `recording.json`: parsed strictly, since it may come from anywhere."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ....recorder import CODES, FORMAT, INDEX, VERSION
from ....runtime.errors import UsageError
from ....runtime.ir.types import as_dtype, is_floating
from ....runtime.visible import visible_name
from .views import WHOLE, View

CELL_ROLES = ("input", "output", "input_gradient", "output_gradient")
NAMED_ROLES = ("parameter", "parameter_gradient", "buffer", "buffer_update")
ROLES = CELL_ROLES + NAMED_ROLES
MAX_INDEX_BYTES = 2**30
MAX_RANK = 64
STATISTICS = ("norm", "mean", "least", "greatest", "finite")
"""The numbers that a summary may have; the first it must have."""
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}\.safetensors")
_PLACEMENT = re.compile(r"(?:S|Shard)\((?:dim=)?([0-9]{1,2})\)|R|Replicate\(\)")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Summary:
    """What is kept of a tensor that wasn't written, because it didn't fit in the budget.

    Attributes:
        dtype: name of the tensor's dtype.
        shape: its shape.
        statistics: numbers on all its elements by name, those of `STATISTICS` that the writer kept; see
            `cellbridge.recorder.statistics`.
        indices: places of some elements in the flat tensor.
        values: these elements.
        sha256: checksum of the tensor's bytes; empty if there is none.
    """

    dtype: str
    shape: tuple[int, ...]
    statistics: Mapping[str, float]
    indices: tuple[int, ...]
    values: tuple[int | float, ...]
    sha256: str = ""

    def transposed(self, axes: tuple[int, ...]) -> Summary:
        """Return the summary of the tensor with its axes in another order."""
        if len(axes) != len(self.shape):
            return self
        shape = tuple(self.shape[axis] for axis in axes)
        places = np.unravel_index(np.array(self.indices, np.int64), self.shape) if self.indices else ()
        indices = np.ravel_multi_index([places[axis] for axis in axes], shape).tolist() if self.indices else []
        return replace(self, shape=shape, indices=tuple(indices), sha256="")


@dataclass(frozen=True, slots=True)
class Placement:
    """How a tensor is spread over the processes that recorded it.

    Attributes:
        axis: the axis along which each process has a part, in their order; None if each has all of it.
        shape: shape of the whole tensor.
    """

    axis: int | None
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """One tensor at one boundary.

    Attributes:
        run: dtype of the run.
        step: number of the training step, from 0.
        cell: path of the Cell; empty for the network itself, and for parameters and buffers.
        call: index of the call among those of the Cell.
        role: one of `ROLES`.
        slot: name of the input or output; or the qualified name of a parameter or buffer.
        dtype: name of the dtype.
        shape: shape as it is stored; complex numbers are pairs of reals.
        file: name of the file in the folder; empty if there is a summary instead.
        key: name in that file.
        sha256: checksum of the bytes; empty if there is none.
        summary: what is kept if the tensor isn't written.
        absent: whether it is a gradient that never arrived.
        placement: how it is spread over processes; None if it isn't.
        view: the part of the stored tensor that it is.
        tracked: whether the network computes a gradient of it, as far as that was recorded.
    """

    run: str
    step: int
    cell: str
    call: int
    role: str
    slot: str
    dtype: str
    shape: tuple[int, ...]
    file: str
    key: str
    sha256: str
    summary: Summary | None
    tracked: bool = True
    absent: bool = False
    placement: Placement | None = None
    view: View = WHOLE

    @property
    def boundary(self) -> tuple[str, int, str, int, str, str]:
        """What the tensor is, in its recording."""
        return self.run, self.step, self.cell, self.call, self.role, self.slot


@dataclass(frozen=True, slots=True)
class CallEntry:
    """One call of a Cell; `parent` is the number of the call that made it, if that is known."""

    run: str
    step: int
    cell: str
    index: int
    class_name: str
    parent: int | None


@dataclass(frozen=True)
class Index:
    """What `recording.json` says.

    Attributes:
        path: the folder.
        complete: whether the writer came to its end.
        model: name of the network.
        framework: name of what ran it.
        dtype: the working dtype.
        mode: "eval" or "train".
        seed: seed of random numbers; None if unknown.
        ranks: number of processes that recorded, each a folder of its own.
        versions: versions of libraries, by name.
        calls: the calls, in the order in which they began.
        tensors: the tensors, in the order in which they were recorded.
    """

    path: Path
    complete: bool
    model: str
    framework: str
    dtype: str
    mode: str
    seed: int | None
    ranks: int
    versions: Mapping[str, str]
    calls: list[CallEntry]
    tensors: list[TensorEntry]


def read_index(folder: Path, parts: Callable[[], list[dict[str, Any]]]) -> Index:
    """Read and check the index of a folder.

    Args:
        folder: the folder.
        parts: returns what the safetensors files themselves say, for a recording whose index was never written.

    Raises:
        UsageError: it can't be read, isn't an index, is of another version, or says what can't be.
    """
    path = folder / INDEX
    try:
        if path.stat().st_size > MAX_INDEX_BYTES:
            raise UsageError(
                f"{path} has {path.stat().st_size} bytes; the index of a recording has at most {MAX_INDEX_BYTES}"
            )
        data = json.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(f"can't read the recording {folder}: {path.name}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} isn't JSON: {error}") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise UsageError(f'{path} isn\'t the index of a recording: it lacks "format": "{FORMAT}"')
    if data.get("version") != VERSION:
        raise UsageError(
            f"{path} has version {data.get('version')!r} of the format; this release reads version {VERSION}\n"
            "  what to do: use a release that reads it, or record again"
        )
    head = _Fields(data, str(path))
    complete = head.boolean("complete", True)
    if not complete and "tensors" not in data:
        headers = parts()
        data = data | {
            name: [entry for part in headers for entry in part.get(name, [])] for name in ("calls", "tensors")
        }
    fields = _Fields(data, str(path))
    calls = [_call(fields.item("calls", n)) for n in range(len(fields.sequence("calls")))]
    for number, call in enumerate(calls):
        if call.parent is not None and not call.parent < number:
            raise UsageError(f"{path}: calls[{number}]: its parent must be an earlier call, given {call.parent}")
    tensors = [_tensor(fields.item("tensors", n)) for n in range(len(fields.sequence("tensors")))]
    known: set[tuple[Any, ...]] = set()
    for number, entry in enumerate(tensors):
        if entry.boundary in known:
            place = (
                f"{entry.role} {visible_name(entry.slot)} of {visible_name(entry.cell) or '(root)'}, call {entry.call}"
            )
            raise UsageError(f"{path}: tensors[{number}]: {place} is recorded twice")
        known.add(entry.boundary)
    versions = data.get("versions", {})
    return Index(
        folder,
        complete,
        head.text("model", ""),
        head.text("framework", ""),
        head.one_of("dtype", ("float32", "float64", "float16", "bfloat16"), "float32"),
        head.one_of("mode", ("eval", "train"), "eval"),
        None if data.get("seed") is None else head.number("seed"),
        head.number("ranks", 1),
        {str(k): str(v) for k, v in versions.items()} if isinstance(versions, dict) else {},
        calls,
        tensors,
    )


def _call(fields: _Fields) -> CallEntry:
    parent = None if fields.data.get("parent") is None else fields.number("parent")
    path, index = fields.text("cell"), fields.number("index", 0)
    run, step = fields.text("run", "float32"), fields.number("step", 0)
    return CallEntry(run, step, path, index, fields.text("class", ""), parent)


def _tensor(fields: _Fields) -> TensorEntry:
    role = fields.one_of("role", ROLES)
    in_cell = role in CELL_ROLES
    dtype = fields.one_of("dtype", tuple(CODES))
    shape = fields.sequence("shape")
    if len(shape) > MAX_RANK or not all(type(size) is int and size >= 0 for size in shape):
        raise fields.error("shape", "a list of sizes")
    if math.prod(shape) > 2**48:
        raise fields.error("shape", "the shape of a tensor that a disk can hold")
    file = fields.text("file", "")
    if file and not _FILE.fullmatch(file):
        raise fields.error("file", "the name of a .safetensors file in the folder, without a path")
    sha256 = fields.text("sha256", "")
    if sha256 and not _SHA256.fullmatch(sha256):
        raise fields.error("sha256", "64 hexadecimal digits")
    summary = None
    absent = fields.boolean("absent", False)
    if not file and not absent:
        if not isinstance(fields.data.get("summary"), dict):
            raise fields.error("file", "a file and a key, or a summary")
        inner = _Fields(fields.data["summary"], f"{fields.where}: summary")
        summary = _summary(inner, dtype, tuple(shape), sha256)
    return TensorEntry(
        fields.text("run", "float32"),
        fields.number("step", 0),
        fields.text("cell") if in_cell else "",
        fields.number("call", 0) if in_cell else 0,
        role,
        fields.text("slot"),
        dtype,
        tuple(shape),
        file,
        fields.text("key") if file else "",
        sha256,
        summary,
        fields.boolean("tracked", True),
        absent,
        _placement(fields) if "placement" in fields.data else None,
    )


def _placement(fields: _Fields) -> Placement:
    data = fields.data["placement"]
    if not isinstance(data, dict):
        raise fields.error("placement", "an object")
    inner = _Fields(data, f"{fields.where}: placement")
    placements, mesh, shape = (inner.sequence(name) for name in ("placements", "mesh", "shape"))
    match = _PLACEMENT.fullmatch(str(placements[0])) if len(placements) == len(mesh) == 1 else None
    if match is None:
        raise inner.error("placements", "one placement on a mesh of one axis, S(AXIS) or R")
    if not all(type(size) is int and size >= 0 for size in shape) or int(match[1] or 0) >= max(1, len(shape)):
        raise inner.error("shape", "the shape of the whole tensor, with that axis")
    return Placement(None if match[1] is None else int(match[1]), tuple(shape))


def _summary(fields: _Fields, dtype: str, shape: tuple[int, ...], sha256: str) -> Summary:
    size = math.prod(shape)
    indices, values = fields.sequence("indices"), fields.sequence("values")
    if not all(type(place) is int and 0 <= place < size for place in indices) or len(set(indices)) != len(indices):
        raise fields.error("indices", f"different places in a tensor of {size} elements")
    if len(values) != len(indices):
        raise fields.error("values", f"{len(indices)} values, one for each index")
    numbers = tuple(fields.as_real("values", value) for value in values)
    if not is_floating(as_dtype(dtype)):
        limits = np.iinfo(dtype) if dtype != "bool" else None
        least, greatest = (0, 1) if limits is None else (int(limits.min), int(limits.max))
        if not all(least <= number <= greatest and number == int(number) for number in numbers):
            raise fields.error("values", f"numbers that {dtype} can hold")
    names = [name for name in STATISTICS if name in fields.data or name == STATISTICS[0]]
    statistics = {name: float(fields.real(name)) for name in names}
    if statistics["norm"] < 0:
        raise fields.error("norm", "a number of at least 0")
    return Summary(dtype, shape, statistics, tuple(indices), numbers, sha256)


@dataclass(frozen=True)
class _Fields:
    """The fields of a JSON object, and its place in messages."""

    data: Mapping[str, Any]
    where: str

    def error(self, name: str, needed: str) -> UsageError:
        given = visible_name(repr(self.data.get(name)))
        return UsageError(f"{self.where}: {name}: needed {needed}, given {given[:80]}")

    def item(self, name: str, number: int) -> _Fields:
        item = self.data[name][number]
        if not isinstance(item, dict):
            raise UsageError(f"{self.where}: {name}[{number}]: needed an object, given {visible_name(repr(item))[:80]}")
        return _Fields(item, f"{self.where}: {name}[{number}]")

    def sequence(self, name: str) -> list[Any]:
        value = self.data.get(name)
        if not isinstance(value, list):
            raise self.error(name, "a list")
        return value

    def text(self, name: str, default: str | None = None) -> str:
        value = self.data.get(name, default)
        if not isinstance(value, str) or len(value) > 10_000:
            raise self.error(name, "a text")
        return value

    def one_of(self, name: str, among: tuple[str, ...], default: str | None = None) -> str:
        value = self.text(name, default)
        if value not in among:
            raise self.error(name, f"one of {', '.join(among)}")
        return value

    def number(self, name: str, default: int | None = None) -> int:
        value = self.data.get(name, default)
        if type(value) is not int or not 0 <= value < 2**63:
            raise self.error(name, "a number of at least 0")
        return value

    def boolean(self, name: str, default: bool) -> bool:
        value = self.data.get(name, default)
        if not isinstance(value, bool):
            raise self.error(name, "true or false")
        return value

    def real(self, name: str) -> int | float:
        return self.as_real(name, self.data.get(name))

    def as_real(self, name: str, value: Any) -> int | float:
        """Return a number; infinities and NaN are texts in JSON."""
        if value in ("inf", "-inf", "nan"):
            return float(value)
        if type(value) is float or (type(value) is int and abs(value) < 2**64):
            number: int | float = value
            return number
        raise self.error(name, "numbers")
