"""`map_weights`: gives a module on the meta device its weights from safetensors files, without reading them."""

from __future__ import annotations

import contextlib
import json
import mmap
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import torch

from ..runtime.errors import UsageError
from ..runtime.ir.stored import give_pages_back
from ..runtime.visible import visible_name
from .dtypes import numpy_dtype
from .structure.program_names import named_buffers, named_parameters

SUFFIX = ".safetensors"
INDEX_SUFFIX = ".safetensors.index.json"

Array = np.ndarray[Any, Any]

_DTYPES = {
    "BOOL": torch.bool, "I8": torch.int8, "I16": torch.int16, "I32": torch.int32, "I64": torch.int64,
    "U8": torch.uint8, "BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32, "F64": torch.float64,
}  # fmt: skip
_SHOWN = 5
_SHARD = re.compile(r"(?P<stem>.+)-(?P<number>\d{1,9})-of-(?P<count>\d{1,9})\.[a-z]+")


@dataclass(frozen=True)
class _Entry:
    """A tensor of a file: its dtype by its name in the format, its shape, and where its bytes begin."""

    file: mmap.mmap
    dtype: str
    shape: tuple[int, ...]
    begin: int


class MappedWeights:
    """Safetensors files in the address space: a tensor's pages are read when it is used.

    Attributes:
        notes: what a reader should know about the files: tensors that the module doesn't have, other dtypes.
    """

    def __init__(self, files: list[Path]) -> None:
        self.notes: list[str] = []
        self._maps: list[mmap.mmap] = []
        self._entries: dict[str, _Entry] = {}
        for path in files:
            self._add(path)

    @classmethod
    def of(cls, path: str | PathLike[str]) -> MappedWeights:
        """Map a `.safetensors` file, those that an index names, or those of a folder."""
        return cls(files_of(Path(path)))

    def _add(self, path: Path) -> None:
        header, start = header_of(path)
        try:
            with path.open("rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        except OSError as error:
            raise UsageError(f"can't read {path}: {error.strerror or error}") from error
        header.pop("__metadata__", None)
        self._maps.append(mapped)
        for name, item in header.items():
            if name in self._entries:
                raise UsageError(f"{path.parent} holds the tensor {name!r} in two files: give the file that is meant")
            self._entries[name] = _Entry(mapped, item["dtype"], tuple(item["shape"]), start + item["data_offsets"][0])

    def release(self) -> None:
        """Give the memory of all pages back; what is used again is read again. Nothing may have been changed."""
        for mapped in self._maps:
            give_pages_back(mapped)

    def attach(self, module: torch.nn.Module) -> None:
        """Replace the parameters and buffers that are on the meta device by the tensors of these names.

        Raises:
            UsageError: one is missing, or has another shape or a dtype of another kind.
        """
        dtypes: set[tuple[torch.dtype, torch.dtype]] = set()

        def of_file(tensor: torch.Tensor, name: str) -> torch.Tensor:
            replacement = self._tensor(name, tensor)
            if replacement.dtype != tensor.dtype:
                dtypes.add((tensor.dtype, replacement.dtype))
            return replacement

        _replace(module, {key: of_file(tensor, name) for key, (tensor, name) in self._pairs(module).items()})
        for before, after in sorted(dtypes, key=str):
            self.notes.append(
                f"parameters that model() makes in {_name(before)} have the dtype of the file, {_name(after)}"
            )

    def arrays(self, module: torch.nn.Module) -> dict[str, Array]:
        """Return, by name, the arrays of the parameters and buffers that are on the meta device, in the file's dtype.

        Raises:
            UsageError: as for `attach`.
        """
        pairs = self._pairs(module)
        named = (*named_parameters(module), *named_buffers(module))
        return {name: self._array(pairs[id(tensor)][1], tensor) for name, tensor in named if id(tensor) in pairs}

    def _pairs(self, module: torch.nn.Module) -> dict[int, tuple[torch.Tensor, str]]:
        """Return the tensors on the meta device by their id, each with its name in the files."""
        names: dict[int, list[str]] = {}
        tensors: dict[int, torch.Tensor] = {}
        for name, tensor in (
            *named_parameters(module, remove_duplicate=False),
            *named_buffers(module, remove_duplicate=False),
        ):
            if tensor.is_meta:
                names.setdefault(id(tensor), []).append(name)
                tensors[id(tensor)] = tensor
        in_files = {key: next((name for name in tied if name in self._entries), None) for key, tied in names.items()}
        if missing := [names[key][0] for key, name in in_files.items() if name is None]:
            _raise_missing(module, missing, self._entries)
        names_in_module = {name for tied in names.values() for name in tied}
        names_in_module |= {name for name, _ in (*module.named_parameters(), *module.named_buffers())}
        if unused := [name for name in self._entries if name not in names_in_module]:
            note = f"the model doesn't have {_some(unused)} of the files"
            self.notes += [note] if note not in self.notes else []
        return {key: (tensors[key], name) for key, name in in_files.items() if name is not None}

    def _entry(self, name: str, like: torch.Tensor) -> _Entry:
        """Return a tensor of the files for one on the meta device."""
        entry = self._entries[name]
        if entry.shape != tuple(like.shape):
            raise UsageError(
                f"{name} has the shape {list(entry.shape)} in the file, and {list(like.shape)} in the model"
            )
        dtype = _DTYPES.get(entry.dtype)
        if dtype is None or dtype.is_floating_point != like.dtype.is_floating_point:
            raise UsageError(f"{name} has the dtype {entry.dtype} in the file, and {_name(like.dtype)} in the model")
        return entry

    def _tensor(self, name: str, like: torch.Tensor) -> torch.Tensor:
        entry = self._entry(name, like)
        dtype = _DTYPES[entry.dtype]
        if like.numel():
            data = torch.frombuffer(entry.file, dtype=dtype, count=like.numel(), offset=entry.begin).view(entry.shape)
        else:
            data = torch.empty(entry.shape, dtype=dtype)
        return torch.nn.Parameter(data, like.requires_grad) if isinstance(like, torch.nn.Parameter) else data

    def _array(self, name: str, like: torch.Tensor) -> Array:
        entry = self._entry(name, like)
        dtype = numpy_dtype(_DTYPES[entry.dtype])
        if not like.numel():
            return np.empty(entry.shape, dtype)
        return np.frombuffer(entry.file, dtype, like.numel(), entry.begin).reshape(entry.shape)


def _replace(module: torch.nn.Module, replacements: Mapping[int, torch.Tensor]) -> None:
    """Replace parameters and buffers by their id, in all modules that have them."""
    for owner in module.modules():
        places: tuple[dict[str, Any], ...] = owner._parameters, owner._buffers
        for tensors in places:
            tensors |= {
                name: replacements[id(tensor)] for name, tensor in tensors.items() if id(tensor) in replacements
            }


@contextlib.contextmanager
def zeros_for_meta(module: torch.nn.Module) -> Iterator[None]:
    """Within the context, what is on the meta device are zeros, which take no memory."""
    kept: dict[int, torch.Tensor] = {}
    zeros: dict[int, torch.Tensor] = {}
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.is_meta:
            data = torch.zeros((), dtype=tensor.dtype).expand(tensor.shape)
            parameter = isinstance(tensor, torch.nn.Parameter)
            zero = torch.nn.Parameter(data, tensor.requires_grad) if parameter else data
            zeros[id(tensor)], kept[id(zero)] = zero, tensor
    _replace(module, zeros)
    try:
        yield
    finally:
        _replace(module, kept)


def map_weights(module: torch.nn.Module, path: str | PathLike[str]) -> MappedWeights:
    """Give the parameters and buffers of a module that are on the meta device their values from files.

    The files are mapped into memory: no value is read before it is used, and `release` of the result gives the memory
    back. A parameter gets the dtype of the file.

    Args:
        module: a module that was made within `with torch.device("meta")`; it is changed.
        path: a `.safetensors` file, an index of several (`.safetensors.index.json`), or a folder with them.

    Returns:
        The files. They must stay as they are for as long as the module is used.

    Raises:
        UsageError: a file is missing or damaged, or a tensor is missing or has another shape.
    """
    weights = MappedWeights.of(path)
    weights.attach(module)
    return weights


def require_values(module: torch.nn.Module) -> None:
    """Raise `UsageError` if parameters or buffers are on the meta device, and so have no values."""
    missing = [name for name, tensor in (*named_parameters(module), *named_buffers(module)) if tensor.is_meta]
    if missing:
        raise UsageError(
            f"tensors have no values, since they are on the meta device: {_some(missing)}\n"
            "  what to do: name the safetensors files that hold them, as `checkpoint` in the model file "
            "(from_torch(..., checkpoint=) in Python), or load the model's state dict"
        )


def header_of(path: Path) -> tuple[dict[str, Any], int]:
    """Return the header of a safetensors file, and where the bytes of its tensors begin.

    Raises:
        UsageError: the file can't be read, its sizes or offsets are wrong, or tensors overlap.
    """
    try:
        with safetensors.safe_open(path, framework="np"):  # checks the whole header
            pass
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header: dict[str, Any] = json.loads(file.read(size))
    except safetensors.SafetensorError as error:
        raise UsageError(f"can't read {path}: not safetensors, or damaged: {error}") from error
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror or error}") from error
    return header, 8 + size


def files_of(path: Path) -> list[Path]:
    """Return the safetensors files at a path: itself, those that an index names, or those of a folder."""
    if path.is_dir():
        indexes = sorted(path.glob(f"*{INDEX_SUFFIX}"))
        if len(indexes) > 1:
            raise UsageError(f"{path} holds {len(indexes)} indexes of safetensors files: give the one that is meant")
        if indexes:
            return files_of_index(indexes[0])
        files = sorted(path.glob(f"*{SUFFIX}"))
        if not files:
            raise UsageError(f"{path} holds no {SUFFIX} file")
        for file in files:
            _require_regular(file)
        require_all_shards(files)
        return files
    if not path.exists():
        raise UsageError(f"no such file: {path}")
    if path.name.endswith(INDEX_SUFFIX):
        return files_of_index(path)
    if path.suffix != SUFFIX:
        raise UsageError(f"{path} isn't a {SUFFIX} file, which alone can be used without being read")
    return [path]


def require_all_shards(files: list[Path]) -> None:
    """Raise `UsageError` if files are named as parts of a whole, `model-00001-of-00003`, and a part is missing."""
    parts: dict[tuple[str, int], set[int]] = {}
    for file in files:
        if match := _SHARD.fullmatch(file.name):
            parts.setdefault((match["stem"], int(match["count"])), set()).add(int(match["number"]))
    for (stem, count), numbers in parts.items():
        if len(numbers) < count:
            first = next(number for number in range(1, count + 1) if number not in numbers)
            raise UsageError(
                f"{files[0].parent} holds {len(numbers)} of the {count} files of {visible_name(stem)}, "
                f"and no number {first}: copy the others too, or give the one file that is meant"
            )


def _require_regular(path: Path) -> None:
    if not path.is_file():
        raise UsageError(f"can't read {path}: it isn't a regular file")


def files_of_index(path: Path, suffix: str = SUFFIX) -> list[Path]:
    """Return the files that an index names; names of files beside it are all that it may hold."""
    _require_regular(path)
    try:
        names = set(json.loads(path.read_bytes())["weight_map"].values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(f"can't read {path}: it isn't an index of {suffix[1:]} files") from error
    for name in names:
        if not isinstance(name, str) or name != Path(name).name or Path(name).suffix != suffix:
            raise UsageError(f"{path} names {name!r}, which isn't the name of a {suffix} file beside it")
        if not (path.parent / name).is_file():
            raise UsageError(f"{path} names {visible_name(name)}, which isn't there")
    return [path.parent / name for name in sorted(names)]


def _raise_missing(module: torch.nn.Module, missing: list[str], entries: Mapping[str, Any]) -> None:
    unsaved = (
        f"{path}.{name}".lstrip(".")
        for path, submodule in module.named_modules()
        for name in submodule._non_persistent_buffers_set
    )
    text = f"the files have no {_some(missing)}; they have {_some(list(entries))}"
    if any(name in missing for name in unsaved):
        text += (
            "\n  what to do: a buffer that isn't saved needs its values from model(): make it outside of "
            'torch.device("meta")'
        )
    raise UsageError(text)


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(map(visible_name, names[:_SHOWN])) + more


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
