"""`share_forward`: a gradient takes from the forward pass what it would else compute again."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from cellbridge.runtime import ops
from cellbridge.runtime.ir.program import Program
from cellbridge.runtime.ir.types import Value
from cellbridge.runtime.lowering.rewrites import rewrite, upcast_half_precision
from cellbridge.runtime.programs.gradient_program import GradientProgram, differentiate
from cellbridge.runtime.programs.interpreter import execute
from cellbridge.runtime.programs.plan import plan
from cellbridge.runtime.programs.share_forward import share_forward
from tests.runtime.ops.cases import OpCase
from tests.runtime.ops.cases_recurrent import attributes_of, layer_inputs
from tests.runtime.ops.checks import one_node_program
from tests.runtime.ops.test_all_ops import DIFFERENTIABLE


def layer(op: str, dtype: str = "float64") -> Program:
    return one_node_program(OpCase(op, layer_inputs(op, 3, 2, 3, 4), attributes_of(op, False)), dtype)


def outputs_and_gradients(gradient: GradientProgram) -> list[Value]:
    return [*gradient.program.outputs, *(value for value in gradient.input_gradients if value is not None)]


def ops_of(program: Program, values: list[Value]) -> Counter[str]:
    return Counter(step.node.op for step in plan(program, values))


LONGER = {extended.name: op.name for op in ops.all_ops().values() if (extended := op.base_op) is not None}
"""By op that hands out too little for its gradient: the one that extends it."""


@pytest.mark.parametrize("case", [case for case in DIFFERENTIABLE if case.op in LONGER], ids=str)
def test_an_op_and_its_gradient_run_forward_once(case: OpCase) -> None:
    program = one_node_program(case, "float64")
    gradient = differentiate(program)
    assert Counter(node.op for node in gradient.program.nodes).keys() >= {case.op, LONGER[case.op]}
    counts = ops_of(gradient.program, outputs_and_gradients(gradient))
    assert counts[case.op] == 0
    assert counts[LONGER[case.op]] == 1
    assert ops_of(gradient.program, [*program.outputs]) == {case.op: 1}  # nothing more where no gradient is wanted


def test_ops_whose_gradient_needs_more_have_one() -> None:
    norms = {"layer_norm", "group_norm", "rms_norm"}
    assert norms | {"scaled_dot_product_attention", "lstm", "gru", "mish", "ctc_loss"} <= LONGER.keys()


def test_it_computes_what_both_nodes_would() -> None:
    program = layer("lstm")
    gradient = differentiate(program)
    values = outputs_and_gradients(gradient)
    inputs = [array for array in layer_inputs("lstm", 3, 2, 3, 4) if array is not None]
    inputs += [np.ones(value.shape) for value in program.outputs]
    # with an output of the longer node handed out, both stay
    longer = next(node for node in gradient.program.nodes if node.op == "lstm_with_gates")
    assert ops_of(gradient.program, [*values, longer.outputs[0]])["lstm"] == 1
    apart = execute(gradient.program, inputs, wanted=[*values, longer.outputs[0]])
    for together, separate in zip(execute(gradient.program, inputs, wanted=values), apart, strict=False):
        np.testing.assert_array_equal(together, separate)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_casts_of_one_value_are_one_operand(dtype: str) -> None:
    gradient = differentiate(layer("gru", dtype))
    assert (
        ops_of(gradient.program, outputs_and_gradients(gradient))["gru"] == 1
    )  # in half precision, the gradient in float32
    counts = ops_of(rewrite(gradient.program, upcast_half_precision), outputs_and_gradients(gradient))
    assert counts["gru"] == 0
    assert counts["gru_with_gates"] == 1


def test_other_operands_or_attributes_are_another_layer() -> None:
    nodes = list(differentiate(layer("lstm")).program.nodes)
    i = next(i for i, node in enumerate(nodes) if node.op == "lstm_with_gates")
    assert len(share_forward(nodes, [])) == len(nodes) - 1
    backwards = replace(nodes[i], attributes={"reverse": True})
    swapped = replace(nodes[i], inputs=(nodes[i].inputs[0], *nodes[i].inputs[2:0:-1], *nodes[i].inputs[3:]))
    for changed in (backwards, swapped):
        assert len(share_forward([*nodes[:i], changed, *nodes[i + 1 :]], [])) == len(nodes)


def test_of_two_equal_layers_one_gives_its_gates() -> None:
    nodes = list(differentiate(layer("lstm")).program.nodes)
    first = next(node for node in nodes if node.op == "lstm")
    second = replace(first, outputs=tuple(replace(value, name=f"{value.name}_again") for value in first.outputs))
    counts = Counter(node.op for node in share_forward([first, second, *nodes[1:]], []))
    assert counts["lstm"] == counts["lstm_with_gates"] == 1
