"""`draws_as_inputs`: the program computes with the draws that it is given."""

from __future__ import annotations

import numpy as np

import cellbridge.runtime as ms
from cellbridge.runtime import nn
from cellbridge.runtime.graph import trace
from cellbridge.runtime.ops.registry import get
from cellbridge.runtime.programs.interpreter import execute
from cellbridge.runtime.programs.random_inputs import draws_as_inputs, random_nodes
from cellbridge.runtime.tree import argument_paths


def test_draws_are_taken_in_order() -> None:
    net = nn.SequentialCell(nn.Dropout(p=0.5), nn.ReLU(), nn.Dropout(p=0.75)).set_train()
    x = np.ones((2, 3), np.float32)
    program = trace(net, (ms.Tensor(x),)).program
    drawing = [node.outputs[0] for node in program.nodes if get(node.op).traits.draws]
    assert len(drawing) == 2
    taken = draws_as_inputs(program)
    assert taken.inputs == (*program.inputs, *drawing)
    first, second = np.eye(2, 3, dtype=np.float32), np.full((2, 3), 1.0, np.float32)
    (result,) = execute(taken, [x, first, second])
    np.testing.assert_array_equal(result, first * second * 2 * 4)


def test_a_program_that_draws_nothing_stays() -> None:
    program = trace(nn.ReLU(), (ms.Tensor(np.ones(3, np.float32)),)).program
    assert draws_as_inputs(program).inputs == program.inputs
    assert draws_as_inputs(program).nodes == program.nodes


def test_draws_are_further_arguments_of_the_call() -> None:
    net = nn.SequentialCell(nn.Dropout(p=0.5), nn.ReLU(), nn.Dropout(p=0.75)).set_train()
    program = trace(net, (ms.Tensor(np.ones((2, 3), np.float32)),)).program
    first, second = random_nodes(program)
    assert argument_paths(draws_as_inputs(program).arguments) == ["0", first.outputs[0].name, second.outputs[0].name]


def test_some_nodes_may_keep_drawing() -> None:
    net = nn.SequentialCell(nn.Dropout(p=0.5), nn.Dropout(p=0.75)).set_train()
    program = trace(net, (ms.Tensor(np.ones((2, 3), np.float32)),)).program
    first, second = random_nodes(program)
    taken = draws_as_inputs(program, [second])
    assert taken.inputs == (*program.inputs, second.outputs[0])
    assert random_nodes(taken) == [first]
