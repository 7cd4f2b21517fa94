"""Groups of tensors that hold one weight together, and what all layouts need to read them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from .....runtime.errors import UsageError
from ...arrangements import Array
from ..tensor import StoredCheckpoint, StoredTensor

SCALES = ("float16", "bfloat16", "float32")
"""Dtypes of scales."""


@dataclass(frozen=True)
class Group:
    """The tensors `prefix + part` of a checkpoint, for some names of parts.

    Attributes:
        checkpoint: the checkpoint.
        prefix: what their names begin with, such as "layers.0."; empty at the root.
        main: the part by which the group is known, such as "qweight".
    """

    checkpoint: StoredCheckpoint
    prefix: str
    main: str

    def get(self, part: str) -> StoredTensor | None:
        """The tensor of a part; None if there is none."""
        return self.checkpoint.tensors.get(self.prefix + part)

    def __getitem__(self, part: str) -> StoredTensor:
        """The tensor of a part; raises `UsageError` if there is none."""
        tensor = self.get(part)
        if tensor is None:
            raise self.error(f"there is no {self.prefix}{part} beside it")
        return tensor

    def error(self, problem: str) -> UsageError:
        """Return the error that says why the weight can't be read."""
        return UsageError(f"can't read {self.prefix}{self.main} of {self.checkpoint.path}: {problem}")

    def require(self, condition: bool, problem: str) -> None:
        """Raise the error unless the condition holds."""
        if not condition:
            raise self.error(problem)

    def shapes(self, *parts: str) -> str:
        """Name the parts that there are with their dtypes and shapes."""
        tensors = [(part, self.get(part)) for part in parts]
        return ", ".join(f"{part} {tensor.dtype}{list(tensor.shape)}" for part, tensor in tensors if tensor)


@dataclass(frozen=True)
class Unpacked:
    """The weight of a group.

    Attributes:
        tensor: the weight.
        parts: names of the parts that it takes the place of.
        note: what was assumed; empty if nothing was.
    """

    tensor: StoredTensor
    parts: tuple[str, ...]
    note: str = ""


def groups(checkpoint: StoredCheckpoint, main: str) -> Iterator[Group]:
    """Yield a group for each tensor called `main`, at any depth; if `main` begins with _, whose name ends with it."""
    for name in checkpoint.tensors:
        prefix = name.removesuffix(main)
        if name.endswith(main) and (not prefix or prefix.endswith(".") or main.startswith("_")):
            yield Group(checkpoint, prefix, main)


def with_weights(checkpoint: StoredCheckpoint, weights: Sequence[tuple[Group, Unpacked]]) -> StoredCheckpoint | None:
    """Return the checkpoint with each weight in the place of its group's main tensor; None if there are none.

    Raises:
        UsageError: it has a tensor of a weight's name already.
    """
    if not weights:
        return None
    places = {group.prefix + group.main: unpacked.tensor for group, unpacked in weights}
    gone = {group.prefix + part for group, unpacked in weights for part in unpacked.parts}
    tensors: dict[str, StoredTensor] = {}
    for name, tensor in checkpoint.tensors.items():
        if name in gone and name not in places:
            continue
        kept = places.get(name, tensor)
        if kept.name in tensors:
            raise UsageError(f"{checkpoint.path} has two tensors for {kept.name}: one packed, one not")
        tensors[kept.name] = kept
    notes = dict.fromkeys([*checkpoint.notes, *(unpacked.note for _, unpacked in weights if unpacked.note)])
    return replace(checkpoint, tensors=tensors, notes=tuple(notes))


def settings(checkpoint: StoredCheckpoint) -> Mapping[str, Any]:
    """Return the `quantization_config` of the checkpoint's configuration, which may say anything; empty without one.

    Raises:
        UsageError: the configuration is a text that isn't JSON.
    """
    config = checkpoint.metadata.get("config")
    if isinstance(config, str):
        try:
            config = _parsed(config)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"can't read {checkpoint.path}: it is packed, and its config.json isn't JSON") from error
    found = config.get("quantization_config") if isinstance(config, Mapping) else None
    return found if isinstance(found, Mapping) else {}


@lru_cache(maxsize=2)
def _parsed(text: str) -> Any:
    return json.loads(text)


def of_weights(checkpoint: StoredCheckpoint, key: str) -> list[Any]:
    """Return what the configuration of compressed-tensors says of weights, for each of its groups of layers."""
    of_layers = settings(checkpoint).get("config_groups")
    entries = of_layers.values() if isinstance(of_layers, Mapping) else ()
    weights = [entry.get("weights") for entry in entries if isinstance(entry, Mapping)]
    return [each.get(key) for each in weights if isinstance(each, Mapping)]


def whole_number(checkpoint: StoredCheckpoint, key: str) -> int | None:
    """Return a setting that is a whole number; None if there is none. Raises `UsageError` if it is something else."""
    value = settings(checkpoint).get(key)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise UsageError(f"{checkpoint.path}: its quantization_config says {key}={value!r}, which isn't a whole number")


def columns(tensor: StoredTensor, start: int, stop: int) -> Array:
    """Return the columns from `start` to `stop` of a tensor with two axes, and read it in pieces."""
    return np.concatenate([rows[:, start:stop] for _, rows in tensor.chunks()])


def unpack(words: Array, bits: int, count: int) -> Array:
    """Return the first `count` numbers of `bits` bits along the last axis, as uint8, the lowest bits of a word first.

    Args:
        words: words of 32 bits; a number may begin in one and end in the next.
        bits: at most 8.
        count: so many fit.
    """
    words = np.ascontiguousarray(words).view(np.uint32)
    if bits in (4, 8):  # the common ones, five times as fast
        octets = words.astype("<u4", copy=False).view(np.uint8)
        return (octets if bits == 8 else nibbles(octets))[..., :count]
    first = np.arange(count, dtype=np.uint32) * np.uint32(bits)
    word, shift = first >> 5, first & np.uint32(31)
    numbers: Array = words[..., word] >> shift
    split = shift + np.uint32(bits) > 32
    if split.any():
        numbers[..., split] |= words[..., word[split] + 1] << (np.uint32(32) - shift[split])
    numbers &= np.uint32((1 << bits) - 1)
    return numbers.astype(np.uint8)


def nibbles(octets: Array) -> Array:
    """Return the two numbers of 4 bits in each byte along the last axis, the lower bits first."""
    numbers = np.empty((*octets.shape[:-1], 2 * octets.shape[-1]), np.uint8)
    numbers[..., 0::2] = octets & 15
    numbers[..., 1::2] = octets >> 4
    return numbers


def powers_of_two(octets: Array) -> Array:
    """Return the numbers in float32 that bytes stand for as E8M0: 2 ** (byte - 127), and NaN for 255."""
    exponents = octets.view(np.uint8).astype(np.int32)
    return np.where(exponents == 255, np.float32(np.nan), np.ldexp(np.float32(1), np.minimum(exponents, 254) - 127))


def scaled(codes: Array, steps: Array, zeros: Array | None, group: int | Array) -> Array:
    """Return `(codes - zeros) * steps` in float32.

    Args:
        codes: (rows, columns).
        steps: scales, (rows, groups).
        zeros: zero points, (rows, groups); None for 0.
        group: how many successive columns share a scale, or the group of each column.
    """

    def spread(numbers: Array) -> Array:
        numbers = numbers.astype(np.float32)
        if isinstance(group, int):
            return np.repeat(numbers, group, axis=1)[:, : codes.shape[1]]
        return np.take(numbers, group, axis=1)

    values = codes.astype(np.float32, order="C")
    if zeros is not None:
        values -= spread(zeros)
    values *= spread(steps)
    return values


def group_size(group: Group, columns: int, count: int) -> int:
    """Return how many successive columns share a scale, of which a row has `count`.

    The configuration says so only where the number of columns isn't a multiple.
    """
    said = whole_number(group.checkpoint, "group_size") or 0
    fits = said > 0 and -(-columns // said) == count
    if not count or columns % count:
        group.require(fits, f"{columns} columns can't have {count} groups of one size")
        return said
    size = columns // count
    group.require(
        not fits or said == size or count == 1,
        f"{columns} columns have {count} groups, of {size} or of {said} columns as the configuration says",
    )
    return size
