"""What crosses the boundaries of Cells at one position of a sequence, computed on the whole and step by step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from ...recorder import bind_arguments, named_tensors
from ...runtime.programs.call import as_array
from ..sides.records import INPUT, OUTPUT, Array, Key


@dataclass
class Passage:
    """The values that crossed boundaries while a network ran, in their order.

    Attributes:
        values: a value by its boundary.
        callers: the path of the Cell that made a call, by path and index.
        classes: class names of the Cells, by path.
        length: the length of the sequence that was given.
        row: the row of the batch that is looked at.
        place: the position that is looked at, in what was given.
    """

    length: int
    row: int
    rows: int
    place: int
    values: dict[Key, torch.Tensor] = field(default_factory=dict)
    callers: dict[tuple[str, int], str] = field(default_factory=dict)
    classes: dict[str, str] = field(default_factory=dict)


@contextmanager
def watch(module: torch.nn.Module, passage: Passage) -> Iterator[None]:
    """Within the context, calls of the modules are recorded."""
    handles = []
    counts: dict[str, int] = {}
    running: list[tuple[str, int]] = []

    def add_hooks(path: str, inner: torch.nn.Module) -> None:
        def before(inner: torch.nn.Module, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
            call = counts[path] = counts.get(path, -1) + 1
            passage.classes[path] = type(inner).__name__
            passage.callers[path, call] = running[-1][0] if running else ""
            running.append((path, call))
            for name, value in bind_arguments(inner.forward, args, kwargs)[0].items():
                add(Key(path, call, INPUT, ""), value, name)

        def after(inner: torch.nn.Module, args: tuple[object, ...], result: object) -> None:
            path, call = running.pop()
            add(Key(path, call, OUTPUT, ""), result, "")

        handles.append(inner.register_forward_pre_hook(before, with_kwargs=True))
        handles.append(inner.register_forward_hook(after))

    def add(key: Key, value: object, name: str) -> None:
        for slot, tensor in named_tensors(value, name):
            if isinstance(tensor, torch.Tensor):
                passage.values[key._replace(slot=slot)] = tensor.detach().clone()

    try:
        for path, inner in module.named_modules():
            add_hooks(path, inner)
        yield
    finally:
        for handle in handles:
            handle.remove()


def aligned(whole: Passage, step: Passage) -> Iterator[tuple[Key, Array, Array]]:
    """Yield the values of both at the position, where it is known which axis of a tensor is the sequence.

    That axis has the lengths of the two sequences, or, in front of a causal convolution, as much more in both; other
    axes are alike, but for the batch, which has one row where all are alike. Where that isn't so, as with masks and
    caches, a value is left out.
    """
    for key, value in whole.values.items():
        other = step.values.get(key)
        if other is None or other.ndim != value.ndim:
            continue
        ours, theirs, found = value, other, whole.length == step.length
        for axis in range(value.ndim):
            sizes = value.shape[axis], other.shape[axis]
            if axis == 0 and sizes[0] in (1, whole.rows) and sizes[1] in (1, step.rows):  # 1: the same for all rows
                ours = ours.narrow(0, whole.row if sizes[0] == whole.rows else 0, 1)
                theirs = theirs.narrow(0, step.row if sizes[1] == step.rows else 0, 1)
            elif (more := sizes[0] - whole.length) == sizes[1] - step.length and more >= 0 and not found:
                ours, theirs = ours.narrow(axis, whole.place, more + 1), theirs.narrow(axis, step.place, more + 1)
                found = True
        if found and ours.shape == theirs.shape:
            yield key, as_array(ours), as_array(theirs)
