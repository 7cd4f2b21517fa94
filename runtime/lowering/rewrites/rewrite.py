"""`rewrite`: a program in which a rule has replaced nodes by others that compute the same values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...ir.program import Program
from ...ir.types import Node
from ...tracing import Builder

Rule = Callable[[Builder, Node], bool]
"""Appends nodes to the builder that compute the outputs of a node; False, with nothing appended, keeps the node."""


def rewrite(program: Program, rule: Rule) -> Program:
    """The program with the nodes that `rule` replaces, in sub-programs too; the program itself if there are none.

    A node that holds sub-programs is kept, with those rewritten.
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
    """Let the node that was appended last have the outputs of `node`, which it takes the place of."""
    builder.nodes[-1] = replace(builder.nodes[-1], outputs=node.outputs)
