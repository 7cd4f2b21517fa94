"""`RepeatedPrograms`: the programs of parts, captured once for parts that are equal but for their weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ....converter.structure.program_names import named_buffers, named_parameters
from ....runtime.ir.program import Program
from ....runtime.programs.call import as_array
from ...options import Options
from ...sides.precision import in_dtype
from ...sides.torch_program import capture_program
from .boundaries import PartCall
from .containers import Around
from .division import Part

_STATE = ("_parameters", "_buffers", "_modules", "training", "forward")


class RepeatedPrograms:
    """The programs captured so far, without their weights."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._known: list[tuple[list[Any], str, Program]] = []

    def program(self, part: Part, around: Around, call: PartCall, *, anew: bool = False) -> tuple[Program, bool]:
        """Return the program of a part, and whether it was captured from another part.

        Args:
            part: the part.
            around: the part at its path in the network.
            call: the call that the program is for.
            anew: capture it even if there is one of an equal part.
        """
        key = _description(part.module, call)
        if not anew:
            for other, path, program in self._known:
                if _are_equal(key, other):
                    return self._moved(program, path, part.path, around), True
        args, kwargs = call.inputs()
        program = capture_program(around, args, kwargs, None, self.options.dtype, self.options.train, copy=False)
        if not anew:
            self._known.append((key, part.path, program.without_data()))
        return program, False

    def _moved(self, program: Program, before: str, after: str, around: Around) -> Program:
        """Return a program with another part's paths and weights."""

        def moved(name: str) -> str:
            return after + name[len(before) :] if name == before or name.startswith(f"{before}.") else name

        working = getattr(torch, self.options.dtype)
        with in_dtype(around, working, through=working, train=self.options.train):
            parameters = {name: as_array(p) for name, p in named_parameters(around)}
            buffers = {name: as_array(b).copy() for name, b in named_buffers(around)}
        for data in parameters.values():
            data.flags.writeable = False
        return program.replace(
            calls=tuple(replace(call, path=moved(call.path)) for call in program.calls),
            parameters={
                moved(name): replace(item, data=parameters[moved(name)], aliases=tuple(map(moved, item.aliases)))
                for name, item in program.parameters.items()
            },
            buffers={moved(name): replace(item, data=buffers[moved(name)]) for name, item in program.buffers.items()},
        )


def _description(module: torch.nn.Module, call: PartCall) -> list[Any]:
    """Return all that the program of a call depends on but for the values of parameters and buffers."""
    return [*_of_module(module), *_of_call(call)]


def _of_module(module: torch.nn.Module) -> Iterator[Any]:
    for path, inner in module.named_modules():
        yield path
        yield type(inner)
        yield inner.training
        for tensors in (inner._parameters, inner._buffers):
            for name, tensor in tensors.items():
                yield name
                yield None if tensor is None else (tensor.dtype, tuple(tensor.shape), tensor.requires_grad)
        for name, value in vars(inner).items():
            if name not in _STATE:
                yield name
                yield value


def _of_call(call: PartCall) -> Iterator[Any]:
    leaves, spec = pytree.tree_flatten(call.inputs())
    yield spec
    for leaf in leaves:
        yield (leaf.dtype, tuple(leaf.shape)) if isinstance(leaf, torch.Tensor) else leaf


_PLAIN = (
    bool, int, float, complex, str, bytes, type, torch.dtype, torch.device, torch.Size, pytree.TreeSpec, FunctionType,
    BuiltinFunctionType,
)  # fmt: skip


def _are_equal(value: Any, other: Any) -> bool:
    """Whether two values are the same object, or equal ones of kinds whose equality is known."""
    if value is other:
        return True
    if type(value) is not type(other):
        return False
    if isinstance(value, (list, tuple)):
        return len(value) == len(other) and all(map(_are_equal, value, other))
    if isinstance(value, (set, frozenset)):
        return bool(value == other)
    if isinstance(value, dict):
        return list(value) == list(other) and all(_are_equal(value[key], other[key]) for key in value)
    return isinstance(value, _PLAIN) and bool(value == other)
