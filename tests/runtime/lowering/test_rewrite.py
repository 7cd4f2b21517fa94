"""`rewrite`: what a rule replaces is replaced, in sub-programs too, and nothing else is touched."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cellbridge.runtime.ir.program import Program
from cellbridge.runtime.ir.types import BOOL, FLOAT32, Node, Type
from cellbridge.runtime.lowering.rewrites.rewrite import rewrite, take_over_outputs
from cellbridge.runtime.ops import elementwise
from cellbridge.runtime.ops.higher_order import control_flow
from cellbridge.runtime.programs.interpreter import execute
from cellbridge.runtime.programs.subprograms import build_subprogram, trace_subprogram
from cellbridge.runtime.tracing import Builder, SymbolicTensor

X = Type(FLOAT32, (3,))


def exp_by_negation(builder: Builder, node: Node) -> bool:
    """exp(x) as 1 / exp(-x)."""
    if node.op != "exp":
        return False
    assert node.inputs[0] is not None
    x = SymbolicTensor(builder, node.inputs[0])
    1.0 / elementwise.exp(-x)
    take_over_outputs(builder, node)
    return True


def program_of(branching: bool) -> Program:
    builder = Builder()
    x = builder.new_value("x", X)
    if not branching:
        return build_subprogram(builder, [x], [elementwise.exp(x) + 1.0], "F")
    condition = builder.new_value("condition", Type(BOOL, ()))
    then = trace_subprogram(lambda a: [elementwise.exp(a)], [X], "then")
    orelse = trace_subprogram(lambda a: [a * 2.0], [X], "orelse")
    y = control_flow.cond(condition, x, then_branch=then, else_branch=orelse)
    return build_subprogram(builder, [condition, x], [y], "F")


def test_nodes_are_replaced_and_values_stay() -> None:
    program = program_of(False)
    rewritten = rewrite(program, exp_by_negation)
    assert [node.op for node in program.nodes] == ["exp", "add"]
    assert [node.op for node in rewritten.nodes] == ["neg", "exp", "div", "add"]
    assert rewritten.outputs == program.outputs
    x = np.array([-1, 0, 2], np.float32)
    np.testing.assert_allclose(execute(rewritten, [x])[0], np.exp(x) + 1, rtol=1e-6)


def test_a_program_without_such_nodes_is_itself() -> None:
    program = rewrite(program_of(False), exp_by_negation)
    assert rewrite(program, lambda builder, node: False) is program


def test_programs_within_are_rewritten() -> None:
    program = program_of(True)
    (node,) = rewrite(program, exp_by_negation).nodes
    assert [inner.op for inner in node.attributes["then_branch"].nodes] == ["neg", "exp", "div"]
    assert replace(node, attributes=program.nodes[0].attributes).outputs == program.nodes[0].outputs
    x = np.array([-1, 0, 2], np.float32)
    (y,) = execute(rewrite(program, exp_by_negation), [np.array(True), x])
    np.testing.assert_allclose(y, np.exp(x), rtol=1e-6)


def test_programs_within_that_stay_leave_their_node_alone() -> None:
    program = program_of(True)
    assert rewrite(program, lambda builder, node: False) is program
