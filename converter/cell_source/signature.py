"""The signature of a construct."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from ...runtime.errors import ConversionError
from ...runtime.ir.program import Program
from ...runtime.namespace import unique_name
from ...runtime.tree import Structure, is_call
from ..structure.interfaces import Interface
from .text.expressions import RESERVED, identifier, quote


@dataclass
class Signature:
    """The parameters of a construct.

    Attributes:
        names: names of the tensors, in order.
        parameters: the parameters of `construct`, with defaults; some aren't tensors if the original took other values.
        unpacking: lines that unpack tensors from nested parameters.
    """

    names: list[str] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)
    unpacking: list[str] = field(default_factory=list)


def signature_of(interface: Interface, sizes: Sequence[str], reserved: Iterable[str] = ()) -> Signature:
    """The signature of an inner call: tensors, with names not in `reserved`, and `sizes` that no shape determines."""
    names = _unique((identifier(re.sub(r"\W+", "_", slot)) for slot in interface.slots), [*sizes, *reserved])
    return Signature(names, [*names, *sizes])


def signature_of_root(program: Program, interface: Interface, reserved: Collection[str] = ()) -> Signature:
    """The signature of the whole network: that of the original, except for names in `reserved`."""
    if not is_call(program.arguments):
        raise ConversionError("the program's arguments must be a tuple and a dict, so that a signature can be written")
    positional, keywords = program.arguments.children
    slots = iter(interface.slots)
    signature = Signature()
    arguments: list[tuple[str | None, Structure]] = [(None, child) for child in positional.children]
    arguments += [(str(key), child) for key, child in zip(keywords.keys, keywords.children, strict=True)]
    for key, child in arguments:
        inside = [next(slots) for _ in child.paths()]
        if child.kind == "constant":
            name = identifier(key or f"option_{len(signature.parameters)}")
            signature.parameters.append(f"{name}={child.constant!r}")
            continue
        name = identifier(key or re.split(r"\W", inside[0])[0] if inside else key or "x")
        name = _unique([name], [*reserved, *(p.partition("=")[0] for p in signature.parameters)])[0]
        signature.parameters.append(name if not any("=" in p for p in signature.parameters) else f"{name}=None")
        if child.kind == "tensor":
            signature.names.append(name)
        else:
            names = _unique(
                (identifier(re.sub(r"\W+", "_", slot)) for slot in inside), [*reserved, *signature.names, name]
            )
            signature.names += names
            signature.unpacking += [f"{n} = {name}{path}" for n, path in zip(names, _paths(child), strict=True)]
    return signature


def _paths(structure: Structure, prefix: str = "") -> list[str]:
    if structure.kind == "tensor":
        return [prefix]
    labels = structure.keys or range(len(structure.children))
    pairs = zip(labels, structure.children, strict=True)
    return [path for label, child in pairs for path in _paths(child, f"{prefix}[{quote(label)}]")]


def _unique(names: Iterable[str], reserved: Iterable[str]) -> list[str]:
    result: list[str] = []
    for name in names:
        result.append(unique_name(name, [*reserved, *result, *RESERVED]))
    return result
