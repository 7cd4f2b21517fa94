"""The signature of the whole module: placeholders of its graph for the program's structured arguments."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

from torch import fx

from ...runtime import tree
from ...runtime.errors import ConversionError
from ...runtime.ir.program import Program
from ...runtime.ir.types import Value
from ...runtime.namespace import Namespace
from ...runtime.tree import Structure, is_call
from ..structure.naming import identifier
from .calls import functions

PLAIN = (bool, int, float, str, type(None))


def has_structure(program: Program) -> bool:
    """Whether the program's inputs and outputs match its structures of arguments and result."""
    return (
        is_call(program.arguments)
        and program.arguments.tensors == len(program.inputs)
        and program.result.tensors == len(program.outputs)
    )


def root_inputs(
    program: Program,
    slots: Sequence[str],
    order: Sequence[Value],
    placeholder: Callable[..., fx.Proxy],
    tracer: fx.proxy.TracerBase,
) -> dict[Value, fx.Proxy]:
    """Create the placeholders of the whole module.

    Args:
        program: the program.
        slots: names of the inputs in the original.
        order: the inputs in the order of the original's parameters.
        placeholder: creates a placeholder from a name, a keyword and a default.
        tracer: the tracer of the graph.

    Returns:
        The proxies of the inputs.
    """
    names = Namespace(["self"])
    if not has_structure(program):
        return {v: placeholder(names.unique(identifier(v.name)), v.name) for v in program.inputs}
    positional, keywords = program.arguments.children
    values = iter(zip(program.inputs, slots, strict=True))
    texts = [str(key) for key in keywords.keys]
    for text in texts:  # keywords are named first, so that they keep their names
        if text == identifier(text):
            names.take(text)
    arguments: list[tuple[str, str, Structure, list[Value]]] = []
    for i, child in enumerate(positional.children):
        inside = [next(values) for _ in child.paths()]
        name = names.unique(identifier(re.split(r"\W", inside[0][1])[0] if inside else f"option_{i}"))
        arguments.append((name, name, child, [value for value, _ in inside]))
    named: list[tuple[str, str, Structure, list[Value]]] = []
    for text, child in zip(texts, keywords.children, strict=True):
        name = text if text == identifier(text) else names.unique(identifier(text))
        named.append((name, text, child, [next(values)[0] for _ in child.paths()]))
    places = {value: position for position, value in enumerate(order)}
    named.sort(key=lambda argument: places.get(argument[3][0], len(places)) if argument[3] else len(places) + 1)
    arguments += named
    needed = max((i for i, (_, _, child, _) in enumerate(arguments) if child.kind != "constant"), default=-1)
    proxy_of: dict[str, fx.Proxy] = {}
    for i, (name, key, child, _) in enumerate(arguments):
        default = (_plain(child.constant, key),) if child.kind == "constant" and i > needed else ()
        proxy_of[name] = placeholder(name, key, default)
    proxies: dict[Value, fx.Proxy] = {}
    for name, key, child, inside_values in arguments:
        _unpack(tracer, proxy_of[name], child, iter(inside_values), key, proxies)
    return proxies


def _unpack(
    tracer: fx.proxy.TracerBase,
    argument: fx.Proxy,
    structure: Structure,
    values: Any,
    name: str,
    proxies: dict[Value, fx.Proxy],
) -> None:
    """Extract the tensors from an argument, and add checks that the other leaves equal the captured ones."""
    if structure.kind == "tensor":
        proxies[next(values)] = argument
    elif structure.kind == "constant":
        constant = _plain(structure.constant, name)
        tracer.create_proxy("call_function", functions.require_constant, (name, argument, constant), {})
    else:
        get = functions.field if structure.kind == "dict" and structure.name else operator.getitem
        keys = structure.keys if structure.kind == "dict" else range(len(structure.children))
        for key, child in zip(keys, structure.children, strict=True):
            item = tracer.create_proxy("call_function", get, (argument, key), {})
            _unpack(tracer, item, child, values, f"{name}[{key!r}]", proxies)


def _plain(constant: Any, name: str) -> Any:
    if not isinstance(constant, PLAIN):
        raise ConversionError(
            f"argument {name!r}: {constant!r} ({type(constant).__name__}) can't be a default argument of a torch module"
        )
    return constant


def result_of(program: Program, outputs: list[Any], tracer: fx.proxy.TracerBase) -> Any:
    """The outputs in the structure of the result."""
    if not has_structure(program):
        return tuple(outputs)
    return _pack(program.result, iter(outputs), tracer)


def _pack(structure: Structure, outputs: Any, tracer: fx.proxy.TracerBase) -> Any:
    if structure.kind == "tensor":
        return next(outputs)
    if structure.kind == "namedtuple":
        items = [_pack(child, outputs, tracer) for child in structure.children]
        arguments = (structure.name, structure.keys, *items)
        return tracer.create_proxy("call_function", functions.named_tuple, arguments, {})
    if structure.kind in ("tuple", "list", "dict"):
        items = [_pack(child, outputs, tracer) for child in structure.children]
        if structure.kind == "dict":
            return dict(zip(structure.keys, items, strict=True))
        return tuple(items) if structure.kind == "tuple" else items
    return tree.unflatten(structure, [])
