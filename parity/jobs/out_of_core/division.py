"""`divide`: cuts a network into parts, the largest modules that can be judged within the memory allowed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from ....runtime.errors import UsageError
from ....runtime.memory import size_in_words

JUDGING_WITH_GRADIENTS = 42
"""Bytes per parameter while a part is judged: float64 values and gradients of two sides, float32 ones, the ONNX model;
measured on linear layers and blocks of decoders (benchmarks/out_of_core.py): 35 to 41."""
JUDGING_OUTPUTS = 30
"""The same without gradients."""
BASE = 8 * 10**8
"""Bytes that Python with torch and ONNX Runtime takes, and values at the boundaries of small inputs."""


@dataclass(frozen=True)
class Part:
    """A module that is judged on its own.

    Attributes:
        path: its path in the network.
        module: the module.
        size: the memory that judging it takes, in bytes.
    """

    path: str
    module: torch.nn.Module
    size: int


def require_base(memory: int) -> None:
    """Raise `UsageError` unless there is memory left beside Python with torch and ONNX Runtime."""
    if memory <= BASE:
        raise UsageError(
            f"{size_in_words(memory)} of memory is too little: Python with torch and ONNX Runtime takes "
            f"{size_in_words(BASE)} alone; allow at least 1 GB"
        )


def is_larger(network: torch.nn.Module, memory: int, *, grads: bool) -> bool:
    """Whether judging a network as a whole takes more than the bytes that the process may take."""
    return _size(network) * _each(grads) > memory - BASE


def divide(
    network: torch.nn.Module, memory: int, *, grads: bool, selects: Callable[[str], bool] = lambda path: True
) -> list[Part]:
    """Return the parts: modules below which nothing need be divided, in the order of the network.

    What isn't in a part are the modules that contain parts, and modules without parameters beside parts.

    Args:
        network: the network.
        memory: the bytes that the process may take.
        grads: whether gradients are judged too.
        selects: whether the Cell at a path is judged; others may take more, since they only run.

    Raises:
        UsageError: a Cell that is judged can't be divided further and takes more.
    """
    return list(_parts("", network, memory - BASE, _each(grads), selects))


def _each(grads: bool) -> int:
    return JUDGING_WITH_GRADIENTS if grads else JUDGING_OUTPUTS


def _size(module: torch.nn.Module, *, recurse: bool = True) -> int:
    """Return the number of parameters, and of elements of buffers."""
    return sum(t.numel() for t in (*module.parameters(recurse=recurse), *module.buffers(recurse=recurse)))


def _parts(path: str, module: torch.nn.Module, room: int, each: int, selects: Callable[[str], bool]) -> Iterator[Part]:
    size = _size(module) * each
    if not size:
        return
    if size <= room and path and _is_called(module):
        yield Part(path, module, size)
        return
    own_size = _size(module, recurse=False) * each
    if own_size > room and path and _is_called(module) and not selects(path):
        yield Part(path, module, size)
        return
    if own_size > room:
        name = f"the Cell {path or '(root)'} ({type(module).__name__})"
        count = f"{own_size / each:.3g} parameters of its own"
        raise UsageError(
            f"{name} has {count}, and judging it takes about {size_in_words(own_size + BASE)} of memory; "
            f"{size_in_words(room + BASE)} are allowed\n"
            "  what to do: allow more with --memory, compare outputs alone with --no-grad, or leave it out with --skip"
        )
    for name, child in module.named_children():
        yield from _parts(f"{path}.{name}" if path else name, child, room, each, selects)


def _is_called(module: torch.nn.Module) -> bool:
    """Whether a module has a forward of its own: a list or dict of modules is never called."""
    return not isinstance(module, (torch.nn.ModuleList, torch.nn.ModuleDict))
