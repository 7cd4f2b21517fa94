"""Lines of source laid out as a formatter would: at most 100 characters, broken at brackets."""

from __future__ import annotations

WIDTH = 100
INDENT = "    "
_PAIRS = {"(": ")", "[": "]", "{": "}"}


def laid_out(line: str, depth: int = 0) -> list[str]:
    """One logical line as lines of at most `WIDTH` characters, where brackets allow."""
    margin = INDENT * depth
    if len(margin) + len(line) <= WIDTH:
        return [margin + line]
    found = _last_bracket(line)
    if found is None:
        return [margin + line]
    start, end = found
    head, inside, tail = line[: start + 1], line[start + 1 : end], line[end:]
    if len(margin) + len(INDENT) + len(inside) <= WIDTH and not inside.endswith(","):
        return [margin + head, margin + INDENT + inside, margin + tail]
    lines = [margin + head]
    items = _split(inside)
    for item in items:
        comma = "" if len(items) == 1 and (" for " in item or not line[:start].strip()) else ","
        lines += laid_out(item + comma, depth + 1)
    return [*lines, margin + tail]


def _brackets(line: str) -> list[tuple[int, int]]:
    """Start and end of each outermost pair of brackets that isn't in a string."""
    found: list[tuple[int, int]] = []
    open_at: list[int] = []
    quote = ""
    for i, character in enumerate(line):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in _PAIRS:
            open_at.append(i)
        elif character in _PAIRS.values():
            start = open_at.pop()
            if not open_at:
                found.append((start, i))
    return found


def _last_bracket(line: str) -> tuple[int, int] | None:
    """The last outermost pair that holds anything; the one before it if that leaves nothing long behind."""
    pairs = [pair for pair in _brackets(line) if pair[1] - pair[0] > 1]
    return pairs[-1] if pairs else None


def _split(inside: str) -> list[str]:
    """What stands between commas that are in no bracket and no string."""
    covered = _brackets(inside)
    cuts = [-1]
    quote = ""
    for i, character in enumerate(inside):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character == "," and not any(start < i < end for start, end in covered):
            cuts.append(i)
    cuts.append(len(inside))
    return [item for a, b in zip(cuts, cuts[1:], strict=False) if (item := inside[a + 1 : b].strip())]
