"""What the inputs and outputs of an exported model are called."""

from __future__ import annotations

from typing import Any

from ...runtime.ir.program import Program
from ...runtime.tree import Structure
from ..structure.naming import Namespace


def input_names(program: Program) -> list[str]:
    """One name per `program.inputs`: the keyword (`input_ids`, `state.hidden`) or else the value's name."""
    paths = _key_paths(program.arguments)
    names = [value.name for value in program.inputs]
    if len(paths) == len(names):  # a gradient program also takes cotangents, which are no arguments
        names = [_joined(path[1:]) if path[0] == 1 else name for path, name in zip(paths, names, strict=True)]
    namespace = Namespace({*program.parameters, *program.buffers})
    return [namespace.free(name) for name in names]


def output_names(program: Program) -> list[str]:
    """One name per `program.outputs`: the keys in the result (`logits`), `output_0`, ... in a sequence, or `output`."""
    names = names_in(program.result)
    namespace = Namespace({*program.parameters, *program.buffers, *input_names(program)})
    return [namespace.free(name) for name in names]


def names_in(result: Structure) -> list[str]:
    """What the tensors of a result are called, as long as the name isn't taken by another tensor of the model."""
    return [_output_name(path) for path in _key_paths(result)]


def _output_name(path: tuple[Any, ...]) -> str:
    if not path:
        return "output"
    return _joined(path) if isinstance(path[0], str) else f"output_{_joined(path)}"


def _joined(path: tuple[Any, ...]) -> str:
    return ".".join(map(str, path))


def _key_paths(structure: Structure, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The keys and positions that lead to each tensor, in flat order."""
    if structure.kind == "tensor":
        return [prefix]
    labels = structure.keys or range(len(structure.children))
    pairs = zip(labels, structure.children, strict=True)
    return [path for label, child in pairs for path in _key_paths(child, (*prefix, label))]
