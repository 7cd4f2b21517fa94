"""A map file's text, written from what a port's tensors are made of."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .assembly import Assembly
from .map_patterns import MapLine, Names, with_patterns

TO, FROM, DROP = "to", "from", "drop"
"""Kinds of lines: with the reference's name on the left, with the port's, and for what isn't converted."""
HEADER = """\
# What the tensors of a port are made of. Where a name alone stands on the right, the reference's is on the left; where
# a table with `from` does, the port's. docs/weights.md describes the keys. The file may be edited, and is taken by
#   parity compare REFERENCE CANDIDATE --map FILE
#   parity weights CHECKPOINT -o PORT --map FILE
"""


def map_text(
    assemblies: Mapping[str, Assembly],
    comments: Mapping[str, str],
    remarks: Iterable[str] = (),
    dropped: Iterable[str] = (),
    reference: Iterable[str] = (),
    port: Iterable[str] = (),
) -> str:
    """Return the text of a map file, with one line for those that differ in numbers alone.

    Args:
        assemblies: by name of the port's tensor.
        comments: by name of the port's tensor, what stands above its line.
        remarks: comments that belong to no line.
        dropped: names of the reference's tensors that the port doesn't have.
        reference: the reference's names, of which a line with `*` may match none that it isn't about.
        port: likewise the port's.
    """
    plain = {name: _plain(assembly) for name, assembly in assemblies.items()}
    keys = [assembly.names[0] for name, assembly in assemblies.items() if plain[name] is not None]
    other_keys = {name for name, value in plain.items() if value is None}
    are_apart = len(set(keys)) == len(keys) and other_keys.isdisjoint(keys)
    dropped = [name for name in dropped if name not in assemblies]  # one line for each key
    lines = [HEADER.rstrip("\n")]
    for remark in remarks:
        lines += ["", *(f"# {line}" for line in remark.splitlines())]
    lines.append("")
    map_lines = [
        MapLine(TO, assembly.names[0], (name,), value)
        if are_apart and (value := plain[name]) is not None
        else MapLine(FROM, name, assembly.all_names, assembly.with_names([""] * len(assembly.all_names)))
        for name, assembly in assemblies.items()
    ]
    map_lines += [MapLine(DROP, name, (), None) for name in dropped]
    reference_names = {*reference, *dropped, *(name for assembly in assemblies.values() for name in assembly.names)}
    port_names = {*port, *assemblies}
    names = Names(
        {TO: reference_names, FROM: port_names, DROP: reference_names | port_names},
        {TO: port_names, FROM: reference_names, DROP: ()},
    )
    for line in with_patterns(map_lines, names):
        for map_line in line.lines:
            port_name = map_line.names[0] if line.kind == TO else map_line.key
            lines += [f"# {remark}" for remark in comments.get(port_name, "").splitlines()]
        lines.append(f"{_toml(line.key)} = {_toml(_value(line))}")
    return "\n".join(lines) + "\n"


def _value(line: MapLine) -> Any:
    """Return what stands on the right of a line."""
    if line.kind == DROP:
        return {"drop": True}
    if line.kind == TO:
        return {"to": line.names[0], **line.form} if line.form else line.names[0]
    return line.form.with_names(line.names).as_dict()


def _plain(assembly: Assembly) -> dict[str, Any] | None:
    """Return the keys of a line with the reference's name on the left; None if it can't have that form."""
    source = assembly.sources[0]
    if (
        len(assembly.sources) > 1
        or not isinstance(source, str)
        or assembly.rows
        or assembly.columns
        or assembly.padding
    ):
        return None
    if assembly.shape is None and assembly.from_axes == assembly.axes == (0,):
        return {}
    is_transposed = assembly.from_axes == (1,) and assembly.axes == (0,) and assembly.shape is None
    return {"transpose": True} if is_transposed else None


def _toml(value: Any) -> str:
    """Format a value in one line."""
    match value:
        case bool():
            return str(value).lower()
        case float():
            return repr(value) if math.isfinite(value) else str(value)
        case int():
            return str(value)
        case str():
            return json.dumps(value, ensure_ascii=True)
        case dict():
            return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
        case Sequence():
            return "[" + ", ".join(_toml(item) for item in value) + "]"
    raise TypeError(f"a map file has no {type(value).__name__}")
