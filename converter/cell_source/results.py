"""Packing and unpacking of results with several tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...runtime.tree import Structure
from .text.expressions import quote


def pattern_of(count: int) -> str:
    """The pattern on the left of an assignment of `count` results."""
    return ", ".join(f"{{{i}}}" for i in range(count))


def subscript(pattern: str, i: int) -> str:
    """The subscript of target `i` in a pattern: in `{0}, ({1}, {2})`, `[1][0]` for 1."""
    path = [0]
    for character in pattern[: pattern.index(f"{{{i}}}")]:
        if character == "(":
            path.append(0)
        elif character == ")":
            path.pop()
        elif character == ",":
            path[-1] += 1
    return "".join(f"[{k}]" for k in path)


def pack_result(structure: Structure, texts: Sequence[str]) -> str:
    """The expression of a nested result, without the parentheses around a tuple; objects become dicts."""
    text = _pack(structure, iter(texts))
    return text[1:-1] if structure.kind in ("tuple", "namedtuple") and len(structure.children) > 1 else text


def _pack(structure: Structure, texts: Iterator[str]) -> str:
    if structure.kind == "tensor":
        return next(texts)
    if structure.kind == "constant":
        return quote(structure.constant)
    items = [_pack(child, texts) for child in structure.children]
    if structure.kind == "dict":
        return f"{{{', '.join(f'{quote(key)}: {item}' for key, item in zip(structure.keys, items, strict=True))}}}"
    if structure.kind == "list":
        return f"[{', '.join(items)}]"
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
