"""How the whole module is called: the placeholders of its graph for the program's structured arguments."""

from __future__ import annotations

import builtins
import keyword
import operator
import re
from collections.abc import Iterable, Sequence
from typing import Any

from torch import fx

from ...runtime import tree
from ...runtime.errors import ConversionError
from ...runtime.ir.program import Program
from ...runtime.ir.types import Value
from ...runtime.tree import Structure
from . import functions

PLAIN = (bool, int, float, str, type(None))


def free_name(wanted: str, taken: Iterable[str]) -> str:
    """An identifier like `wanted` that isn't taken."""
    name = re.sub(r"\W+", "_", wanted).strip("_") or "x"
    if name[0].isdigit() or keyword.iskeyword(name):
        name = f"x_{name}"
    used = {*taken, "self"}
    found, count = name, 0
    while found in used or _is_local(found, used):
        count += 1
        found = f"{name}_{count}"
    return found


def _is_local(name: str, used: set[str]) -> bool:
    """Whether it is what `torch.fx` calls a parameter named like a function of Python: `input_1` for `input`."""
    numbered = re.fullmatch(r"(\w+?)_\d+", name)
    return numbered is not None and numbered[1] in used and hasattr(builtins, numbered[1])


def structured(program: Program) -> bool:
    """Whether the program's arguments and result have the structure that it states."""
    return len(program.arguments.paths()) == len(program.inputs) and len(program.result.paths()) == len(program.outputs)


def root_inputs(
    program: Program, slots: Sequence[str], order: Sequence[Value], tracer: fx.proxy.TracerBase
) -> dict[Value, fx.Proxy]:
    """Write the placeholders of the whole module.

    Args:
        program: whose arguments they are.
        slots: what the original calls its inputs.
        order: the inputs in the order of the original's parameters.
        tracer: of the graph.

    Returns:
        The proxies of the inputs.
    """
    if not structured(program):
        names: list[str] = []
        for value in program.inputs:
            names.append(free_name(value.name, names))
        return {v: tracer.create_proxy("placeholder", n, (), {}) for v, n in zip(program.inputs, names, strict=True)}
    positional, keywords = program.arguments.children
    values = iter(zip(program.inputs, slots, strict=True))
    taken = [str(key) for key in keywords.keys]
    arguments: list[tuple[str, Structure, list[Value]]] = []
    for i, child in enumerate(positional.children):
        inside = [next(values) for _ in child.paths()]
        name = free_name(re.split(r"\W", inside[0][1])[0] if inside else f"option_{i}", taken)
        taken.append(name)
        arguments.append((name, child, [value for value, _ in inside]))
    named = [
        (str(key), child, [next(values)[0] for _ in child.paths()])
        for key, child in zip(keywords.keys, keywords.children, strict=True)
    ]
    places = {value: place for place, value in enumerate(order)}
    named.sort(key=lambda argument: places.get(argument[2][0], len(places)) if argument[2] else len(places) + 1)
    arguments += named
    needed = max((i for i, (_, child, _) in enumerate(arguments) if child.kind != "constant"), default=-1)
    given: dict[str, fx.Proxy] = {}
    for i, (name, child, _) in enumerate(arguments):
        default = (_plain(child.constant, name),) if child.kind == "constant" and i > needed else ()
        given[name] = tracer.create_proxy("placeholder", name, default, {})
    found: dict[Value, fx.Proxy] = {}
    for name, child, inside_values in arguments:
        _open(tracer, given[name], child, iter(inside_values), name, found)
    return found


def _open(
    tracer: fx.proxy.TracerBase,
    given: fx.Proxy,
    structure: Structure,
    values: Any,
    name: str,
    found: dict[Value, fx.Proxy],
) -> None:
    """Take the tensors out of an argument, and hold what isn't one against what was captured."""
    if structure.kind == "tensor":
        found[next(values)] = given
    elif structure.kind == "constant":
        constant = _plain(structure.constant, name)
        tracer.create_proxy("call_function", functions.require_constant, (name, given, constant), {})
    else:
        get = functions.field if structure.kind == "dict" and structure.name else operator.getitem
        keys = structure.keys if structure.kind == "dict" else range(len(structure.children))
        for key, child in zip(keys, structure.children, strict=True):
            item = tracer.create_proxy("call_function", get, (given, key), {})
            _open(tracer, item, child, values, f"{name}[{key!r}]", found)


def _plain(constant: Any, name: str) -> Any:
    if not isinstance(constant, PLAIN):
        raise ConversionError(
            f"argument {name!r}: {constant!r} ({type(constant).__name__}) can't be a default in torch"
        )
    return constant


def result_of(program: Program, outputs: list[Any], tracer: fx.proxy.TracerBase) -> Any:
    """The structured result made of the outputs."""
    if not structured(program):
        return tuple(outputs)
    return _closed(program.result, iter(outputs), tracer)


def _closed(structure: Structure, outputs: Any, tracer: fx.proxy.TracerBase) -> Any:
    if structure.kind == "tensor":
        return next(outputs)
    if structure.kind == "namedtuple":
        items = [_closed(child, outputs, tracer) for child in structure.children]
        made = (structure.name, structure.keys, *items)
        return tracer.create_proxy("call_function", functions.named_tuple, made, {})
    if structure.kind in ("tuple", "list", "dict"):
        items = [_closed(child, outputs, tracer) for child in structure.children]
        if structure.kind == "dict":
            return dict(zip(structure.keys, items, strict=True))
        return tuple(items) if structure.kind == "tuple" else items
    return tree.unflatten(structure, [])
