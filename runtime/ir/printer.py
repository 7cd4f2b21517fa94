"""A program as readable text."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..visible import visible_name
from .program import Program
from .types import Node, Value


def text(program: Program) -> str:
    """Return the program as text, one line per node, with a heading for each Cell.

    Scalars are printed where they are used; boundaries show which input or output of a Cell a value is.
    """
    scalars = {c.value: repr(c.data.item()) for c in program.constants if c.data.ndim == 0}
    lines = [f"program {visible_name(program.calls[0].class_name)}({', '.join(map(str, program.inputs))}):"]
    lines += [
        f"  parameter {visible_name(n)}: {p.value.type}{'' if p.trainable else ' frozen'}"
        for n, p in program.parameters.items()
    ]
    lines += [
        f"  buffer {visible_name(n)}: {b.value.type}{f' <- %{visible_name(b.update.name)}' if b.update else ''}"
        for n, b in program.buffers.items()
    ]
    lines += [f"  constant {c.value}" for c in program.constants if c.data.ndim]
    names = {p.value: visible_name(name) for name, p in program.parameters.items()}
    names |= {b.value: visible_name(name) for name, b in program.buffers.items()}
    current = None
    for node in program.nodes:
        if node.cell != current:
            current = node.cell
            call = program.calls[current]
            lines.append(f"  {call} {visible_name(call.class_name)}")
        lines.append(f"    {_node_text(node, scalars, names)}")
        for name, value in node.attributes.items():
            if isinstance(value, Program):
                lines += [f"      {visible_name(name)}:", *(f"        {line}" for line in text(value).splitlines())]
    lines.append(f"  return {', '.join(f'%{visible_name(value.name)}' for value in program.outputs)}")
    return "\n".join(lines)


def _node_text(node: Node, scalars: dict[Value, str], names: dict[Value, str]) -> str:
    operands = ", ".join(
        "absent" if v is None else scalars.get(v) or (f"@{names[v]}" if v in names else f"%{visible_name(v.name)}")
        for v in node.inputs
    )
    if node.op == "boundary":
        slot = visible_name(node.attributes["slot"])
        return f"{node.outputs[0]} = {node.attributes['kind']} {slot} {operands}"
    attributes = ", ".join(f"{visible_name(name)}={attribute_text(value)}" for name, value in node.attributes.items())
    outputs = ", ".join(map(str, node.outputs))
    return f"{outputs} = {node.op}({operands}{', ' if operands and attributes else ''}{attributes})"


def attribute_text(value: Any) -> str:
    """Format an attribute: dtypes by name, tuples in parentheses."""
    if isinstance(value, Program):
        return visible_name(value.calls[0].class_name)
    if isinstance(value, np.dtype):
        return value.name
    if isinstance(value, tuple):
        return "(" + ", ".join(attribute_text(item) for item in value) + ")"
    return visible_name(value)
