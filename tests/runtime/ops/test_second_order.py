"""Gradients of gradients: since `vjp` rules are written with ops, a gradient program can be differentiated again."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cellbridge.runtime.ir.program import Program
from cellbridge.runtime.programs.gradient_program import differentiate
from cellbridge.runtime.programs.interpreter import execute
from cellbridge.runtime.tree import TENSOR, Structure
from tests.runtime.ops import cases_indexing, cases_linear, cases_reduction, cases_shaping
from tests.runtime.ops.cases import OpCase
from tests.runtime.ops.checks import as_torch, assert_close, one_node_program, run_torch

FAMILIES = (cases_reduction, cases_shaping, cases_indexing, cases_linear)
CASES = [case for family in FAMILIES for case in family.CASES if case.differentiable and case.torch is not None]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_second_derivatives_agree_with_torch(case: OpCase) -> None:
    program = one_node_program(case, np.float64)
    first = differentiate(program)
    gradients = [value for value in first.input_gradients if value is not None]
    result = Structure("tuple", (TENSOR,) * len(gradients))
    gradient_program: Program = first.program.replace(outputs=tuple(gradients), result=result)
    second = differentiate(gradient_program)

    rng = np.random.default_rng(3)
    inputs = [array for array in case.inputs if array is not None]
    seeds = [rng.standard_normal(value.shape) for value in first.program.inputs[len(inputs) :]]
    second_seeds = [rng.standard_normal(value.shape) for value in gradients]
    leaves = [t for t in map(as_torch, [*inputs, *seeds]) if t is not None]
    differentiable = [leaf.requires_grad_() for leaf in leaves if leaf.is_floating_point()]

    given = iter(leaves)
    outputs = run_torch(case, [None if array is None else next(given) for array in case.inputs])
    pairs = zip([y for y in outputs if y.is_floating_point()], leaves[len(inputs) :], strict=True)
    first_inputs = [leaf for leaf in leaves[: len(inputs)] if leaf.requires_grad]
    ys, gs = zip(*pairs, strict=True)
    first_gradients = torch.autograd.grad(ys, first_inputs, gs, create_graph=True)
    expected = torch.autograd.grad(
        first_gradients,
        differentiable,
        [as_torch(seed) for seed in second_seeds],
        allow_unused=True,
        materialize_grads=True,
    )

    values = [value for value, leaf in zip(second.input_gradients, leaves, strict=True) if leaf.requires_grad]
    computed = execute(
        second.program, [*inputs, *seeds, *second_seeds], wanted=[value for value in values if value is not None]
    )
    arrays = iter(computed)
    for value, expected_tensor in zip(values, expected, strict=True):
        actual = np.zeros(expected_tensor.shape) if value is None else next(arrays)
        assert_close(actual, expected_tensor.numpy(), "float64")
