"""`rewrite`: replaces nodes of a program, by a rule, with others that compute the same values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...ir.program import Program
from ...ir.types import Node
from ...tracing import Builder

Rule = Callable[[Builder, Node], bool]
"""Appends nodes that compute the outputs of a node to the builder; or appends nothing and returns False to keep it."""


def rewrite(program: Program, rule: Rule) -> Program:
    """Return the program with nodes replaced by `rule`, also in sub-programs; the program itself if there are none.

    A node that has sub-programs is kept, with its sub-programs rewritten.
    """
    builder = Builder.from_program(program)
    builder.nodes = []
    changed = False
    for node in program.nodes:
        programs = {name: rewrite(item, rule) for name, item in node.attributes.items() if isinstance(item, Program)}
        if programs:
            changed |= any(item is not node.attributes[name] for name, item in programs.items())
            builder.nodes.append(replace(node, attributes={**node.attributes, **programs}))
            continue
        with builder.at(node.cell, node.source):
            replaced = rule(builder, node)
        changed |= replaced
        if not replaced:
            builder.nodes.append(node)
    return program.replace(nodes=tuple(builder.nodes), constants=tuple(builder.constants)) if changed else program


def take_over_outputs(builder: Builder, node: Node) -> None:
    """Give the node that was appended last the outputs of `node`, which it replaces."""
    builder.nodes[-1] = replace(builder.nodes[-1], outputs=node.outputs)
