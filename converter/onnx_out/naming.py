"""The names of the inputs and outputs of an exported model."""

from __future__ import annotations

from typing import Any

from ...runtime.ir.program import Program
from ...runtime.namespace import Namespace
from ...runtime.tree import Structure


def input_names(program: Program) -> list[str]:
    """One name per `program.inputs`: the keyword (`input_ids`, `state.hidden`) or else the value's name."""
    paths = _key_paths(program.arguments)
    names = [value.name for value in program.inputs]
    if len(paths) == len(names):  # a gradient program also takes cotangents, which are no arguments
        names = [_join(path[1:]) if path[0] == 1 else name for path, name in zip(paths, names, strict=True)]
    namespace = Namespace({*program.parameters, *program.buffers})
    return [namespace.unique(name) for name in names]


def output_names(program: Program) -> list[str]:
    """One name per `program.outputs`: the keys in the result (`logits`), `output_0`, ... in a sequence, or `output`."""
    names = names_in(program.result)
    namespace = Namespace({*program.parameters, *program.buffers, *input_names(program)})
    return [namespace.unique(name) for name in names]


def names_in(result: Structure) -> list[str]:
    """The names of the tensors of a result, before they are made unique in the model."""
    return [_output_name(path) for path in _key_paths(result)]


def _output_name(path: tuple[Any, ...]) -> str:
    if not path:
        return "output"
    return _join(path) if isinstance(path[0], str) else f"output_{_join(path)}"


def _join(path: tuple[Any, ...]) -> str:
    return ".".join(map(str, path))


def _key_paths(structure: Structure, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of keys and indices to each tensor, in flat order."""
    if structure.kind == "tensor":
        return [prefix]
    labels = structure.keys or range(len(structure.children))
    pairs = zip(labels, structure.children, strict=True)
    return [path for label, child in pairs for path in _key_paths(child, (*prefix, label))]
