"""Results of several tensors: how they are taken apart and put together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...runtime.tree import Structure
from .text.expressions import quoted


def pattern_of(count: int) -> str:
    """How so many results stand on the left of an assignment."""
    return ", ".join(f"{{{i}}}" for i in range(count))


def subscript(pattern: str, i: int) -> str:
    """Where target `i` of a pattern stands: of `{0}, ({1}, {2})`, `[1][0]` for 1."""
    path = [0]
    for character in pattern[: pattern.index(f"{{{i}}}")]:
        if character == "(":
            path.append(0)
        elif character == ")":
            path.pop()
        elif character == ",":
            path[-1] += 1
    return "".join(f"[{k}]" for k in path)


def nested(structure: Structure, texts: Sequence[str]) -> str:
    """A result as it was nested, without the parentheses around a tuple; objects become dicts."""
    text = _nested(structure, iter(texts))
    return text[1:-1] if structure.kind in ("tuple", "namedtuple") and len(structure.children) > 1 else text


def _nested(structure: Structure, texts: Iterator[str]) -> str:
    if structure.kind == "tensor":
        return next(texts)
    if structure.kind == "constant":
        return quoted(structure.constant)
    items = [_nested(child, texts) for child in structure.children]
    if structure.kind == "dict":
        return f"{{{', '.join(f'{quoted(key)}: {item}' for key, item in zip(structure.keys, items, strict=True))}}}"
    if structure.kind == "list":
        return f"[{', '.join(items)}]"
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
