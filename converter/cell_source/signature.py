"""The signature of a construct."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from ...runtime.errors import ConversionError
from ...runtime.ir.program import Program
from ...runtime.tree import Structure, is_call
from ..structure.interfaces import Interface
from ..structure.naming import free_name
from .text.expressions import RESERVED, identifier, quoted


@dataclass
class Signature:
    """What a construct is called with.

    Attributes:
        names: of the tensors, in order.
        parameters: of `construct`, with defaults; more than the tensors where the original took other things, too.
        unpacking: lines that take tensors out of nested parameters.
    """

    names: list[str] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)
    unpacking: list[str] = field(default_factory=list)


def signature_of(interface: Interface, sizes: Sequence[str], taken: Iterable[str] = ()) -> Signature:
    """The signature for a call within the network: the tensors, not named as `taken`, and `sizes` that none shows."""
    names = _unique((identifier(re.sub(r"\W+", "_", slot)) for slot in interface.slots), [*sizes, *taken])
    return Signature(names, [*names, *sizes])


def signature_of_root(program: Program, interface: Interface, taken: Collection[str] = ()) -> Signature:
    """The signature of the whole network: as the original was called, but for names that are `taken`."""
    if not is_call(program.arguments):
        raise ConversionError("the program doesn't say how it is called: its arguments aren't a tuple and a dict")
    positional, keywords = program.arguments.children
    slots = iter(interface.slots)
    found = Signature()
    arguments: list[tuple[str | None, Structure]] = [(None, child) for child in positional.children]
    arguments += [(str(key), child) for key, child in zip(keywords.keys, keywords.children, strict=True)]
    for key, child in arguments:
        inside = [next(slots) for _ in child.paths()]
        if child.kind == "constant":
            name = identifier(key or f"option_{len(found.parameters)}")
            found.parameters.append(f"{name}={child.constant!r}")
            continue
        name = identifier(key or re.split(r"\W", inside[0])[0] if inside else key or "x")
        name = _unique([name], [*taken, *(p.partition("=")[0] for p in found.parameters)])[0]
        found.parameters.append(name if not any("=" in p for p in found.parameters) else f"{name}=None")
        if child.kind == "tensor":
            found.names.append(name)
        else:
            names = _unique((identifier(re.sub(r"\W+", "_", slot)) for slot in inside), [*taken, *found.names, name])
            found.names += names
            found.unpacking += [f"{n} = {name}{path}" for n, path in zip(names, _paths(child), strict=True)]
    return found


def _paths(structure: Structure, prefix: str = "") -> list[str]:
    if structure.kind == "tensor":
        return [prefix]
    labels = structure.keys or range(len(structure.children))
    pairs = zip(labels, structure.children, strict=True)
    return [path for label, child in pairs for path in _paths(child, f"{prefix}[{quoted(label)}]")]


def _unique(names: Iterable[str], taken: Iterable[str]) -> list[str]:
    found: list[str] = []
    for name in names:
        found.append(free_name(name, [*taken, *found, *RESERVED]))
    return found
