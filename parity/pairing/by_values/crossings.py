"""The tensors that cross the boundaries of a torch module's Cells, on sample inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from ....converter.capture.other_numbers import with_other_numbers
from ....converter.dtypes import is_inexact
from ....runtime.ir.types import CellCall, is_floating
from ...sides.records import INPUT, OUTPUT, Array, Key, Records, gradient_key


@dataclass(eq=False)
class Crossing:
    """A tensor that crosses one or more boundaries unchanged.

    Attributes:
        order: its number, in the order in which torch computes.
        arrays: the tensor on each sample.
        keys: the boundaries that it crosses, in order.
        varies: whether it differs from sample to sample; True if there is only one.
        gradient: its gradient on the first sample, at the first boundary; None where none arrives.
        computations: the results among the boundaries, by the calls that compute them: norms without weights of their
            own, say, of one tensor in two layers, whose results are equal.
        is_source: whether a Cell computes what is trained from it, and is given nothing that is trained.
    """

    order: int
    arrays: list[Array]
    keys: list[Key] = field(default_factory=list)
    varies: bool = True
    gradient: Array | None = None
    computations: list[list[Key]] = field(default_factory=list)
    is_source: bool = False

    @property
    def floating(self) -> bool:
        """Whether it holds floating-point numbers."""
        return is_floating(self.arrays[0].dtype)

    @property
    def trained(self) -> bool:
        """Whether a gradient passes through it."""
        return self.gradient is not None

    @property
    def can_have_a_place(self) -> bool:
        """Whether its numbers tell its place: they differ from sample to sample, are trained, or begin what is."""
        return self.floating and (self.varies or self.trained or self.is_source)

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape on the first sample."""
        return tuple(self.arrays[0].shape)


def crossings(samples: Sequence[Records]) -> list[Crossing]:
    """Return the tensors at the boundaries in a module's records on several samples."""
    crossing_of: dict[Any, Crossing] = {}
    inputs: list[Crossing] = []
    for key, first in samples[0].values.items():
        if key.kind not in (INPUT, OUTPUT):
            continue
        arrays = [records.values[key] for records in samples if key in records.values]
        if len(arrays) < len(samples):
            continue
        identity = tuple((array.dtype.kind, array.shape, array.tobytes()) for array in arrays)
        varies = len(arrays) < 2 or any(not np.array_equal(first, other) for other in arrays[1:])
        if not key.path and key.kind == INPUT:  # each is an input of the file too, even if two are equal
            inputs.append(Crossing(len(inputs), arrays, [key], varies))
            crossing_of.setdefault(identity, inputs[-1])
            continue
        if identity not in crossing_of:
            crossing_of[identity] = Crossing(len(inputs) + len(crossing_of), arrays, [], varies)
        crossing_of[identity].keys.append(key)
        gradient = samples[0].values.get(gradient_key(key))
        if crossing_of[identity].gradient is None and gradient is not None and np.any(gradient):
            crossing_of[identity].gradient = gradient
    parents = {(call.path, call.index): call.parent for call in samples[0].calls}
    for crossing in crossing_of.values():
        crossing.computations = _computations(crossing.keys, samples[0].calls, parents)
    tensors = [*inputs, *(crossing for crossing in crossing_of.values() if crossing not in inputs)]
    _mark_sources(tensors)
    return tensors


def _mark_sources(tensors: Sequence[Crossing]) -> None:
    """Mark the tensors that begin what is trained, such as features of a time: nothing before them is a Cell's own."""
    given: dict[tuple[str, int], list[Crossing]] = {}
    training: set[tuple[str, int]] = set()
    for tensor in tensors:
        for key in tensor.keys:
            if key.kind == INPUT:
                given.setdefault(key[:2], []).append(tensor)
            elif key.kind == OUTPUT and tensor.trained:
                training.add(key[:2])
    for call in training & given.keys():
        if not any(tensor.trained for tensor in given[call]):
            for tensor in given[call]:
                tensor.is_source = tensor.floating


def _computations(
    keys: Sequence[Key], calls: Sequence[CellCall], parents: Mapping[tuple[str, int], int | None]
) -> list[list[Key]]:
    """Return the results among the boundaries that an equal tensor crosses, together where one is passed on as another.

    A call passes on what it takes, or what a call inside it returns.
    """
    groups: list[list[Key]] = []
    taken = {key[:2] for key in keys if key.kind == INPUT}
    for key in (key for key in keys if key.kind == OUTPUT):
        inside = [group for group in groups if any(_is_around(key[:2], inner[:2], calls, parents) for inner in group)]
        if inside or (groups and key[:2] in taken):
            (inside or groups)[-1].append(key)
        else:
            groups.append([key])
    return groups


def _is_around(
    call: tuple[str, int],
    inner: tuple[str, int],
    calls: Sequence[CellCall],
    parents: Mapping[tuple[str, int], int | None],
) -> bool:
    """Whether a call is another one, or around it."""
    while inner != call:
        parent = parents.get(inner)
        if parent is None:
            return False
        inner = calls[parent].path, calls[parent].index
    return True


def unused_results(tensors: Sequence[Crossing]) -> set[Crossing]:
    """Return the tensors that Cells return beside others, and through which no gradient passes: nothing takes them."""
    trained = {key[:2] for tensor in tensors if tensor.trained for key in tensor.keys if key.kind == OUTPUT}
    return {
        tensor
        for tensor in tensors
        if not tensor.trained and all(key.kind == OUTPUT and key.path and key[:2] in trained for key in tensor.keys)
    }


def is_idle(key: Key, truth: Records) -> bool:
    """Whether no gradient passes at a boundary, so that nothing is known to depend on the tensor."""
    if not any(gradient is not None for gradient in truth.gradients.cotangents):
        return False
    gradient = truth.values.get(gradient_key(key))
    return gradient is None or not np.any(gradient)


def other_sample(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Return the arguments with other numbers: integers in another order; None if nothing changes.

    Equal arguments become different.
    """
    changed = False
    count = 0

    def change(x: torch.Tensor) -> torch.Tensor:
        nonlocal changed, count
        count += 1
        if is_inexact(x):
            result: torch.Tensor = with_other_numbers(x) * (1 - count % 8 / 64)
        else:
            result = x.reshape(-1).roll(1 + (count - 1) % max(x.numel() - 1, 1)).reshape(x.shape)
        changed |= not torch.equal(result, x)
        return result

    result: tuple[tuple[Any, ...], dict[str, Any]] = pytree.tree_map_only(torch.Tensor, change, (args, dict(kwargs)))
    return result if changed else None
