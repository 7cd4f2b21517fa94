"""A captured program that is called while Python is traced is spliced: it gives what it gives op by op, with no more.

Where a Cell of the program was changed, or operators cast what they are given, it runs op by op, as it always does in
eager mode. That way is the reference here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn as torch_nn

import cellbridge.runtime as ms
from cellbridge.converter import from_torch
from cellbridge.runtime import Parameter, ProgramError, Tensor, nn, ops, optim
from cellbridge.runtime.amp import auto_mixed_precision
from cellbridge.runtime.current_trace import current
from cellbridge.runtime.graph import trace
from cellbridge.runtime.ir.program import Program
from cellbridge.runtime.nn import graph_cell
from cellbridge.runtime.ops import random
from cellbridge.runtime.ops.registry import get
from cellbridge.runtime.train_step.arguments import training_step
from cellbridge.runtime.train_step.training_program import training_program
from tests.parity.models import MODELS, X

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]
BATCH = Tensor(X.numpy())


class Net(torch_nn.Module):
    """x [n, 6] to [n, 3]; the block is called twice, with statistics of a batch, and Dropout draws."""

    def __init__(self) -> None:
        super().__init__()
        self.block = torch_nn.Sequential(torch_nn.Linear(6, 6), torch_nn.BatchNorm1d(6), torch_nn.Tanh())
        self.dropout = torch_nn.Dropout(0.5)
        self.head = torch_nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.dropout(self.block(x) + self.block(2 * x)))


class Smooth(torch_nn.Module):
    """x [n, 6] to [n, 1], without statistics or draws."""

    def __init__(self) -> None:
        super().__init__()
        self.body = torch_nn.Sequential(torch_nn.Linear(6, 5), torch_nn.SiLU(), torch_nn.Linear(5, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


class Times(torch_nn.Module):
    """x times y, in a Cell of its own."""

    class Product(torch_nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x * y

    def __init__(self) -> None:
        super().__init__()
        self.product = self.Product()

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.product(x, y)


def captured(module: torch_nn.Module, *args: torch.Tensor, train: bool = True, **changes: Any) -> Program:
    torch.manual_seed(0)
    for parameter in module.parameters():
        torch_nn.init.normal_(parameter, std=0.5)
    return from_torch(module, args, train=train, **changes)


@contextmanager
def op_by_op() -> Iterator[None]:
    """Within the context, no program is spliced."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph_cell._Graph, "unchanged_cells", lambda graph: None)
        yield


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Counts the nodes of programs that run op by op while Python is traced, by op."""
    counts: Counter[str] = Counter()
    apply = graph_cell._Run.apply

    def noted(run: Any, step: Any, operands: list[Any]) -> Any:
        counts[step.node.op] += current() is not None
        return apply(run, step, operands)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph_cell._Run, "apply", noted)
        yield counts


def both_ways(build: Callable[[], Program]) -> tuple[Program, Program]:
    """What `build` traces, spliced and op by op."""
    with counted() as singly_run:
        spliced = build()
    assert not +singly_run
    with counted() as singly_run, op_by_op():
        singly = build()
    assert +singly_run
    return spliced, singly


def results(program: Program, *args: Any) -> list[Array]:
    """Its outputs and the new values of its buffers, always with the same draws."""
    random.seed(7)
    return ms.execute(program, [*map(np.asarray, args)], wanted=[*program.outputs, *program.updates.values()])


def require_same(pair: tuple[Program, Program], *args: Any, one_gradient: bool = True) -> None:
    """The same nodes, from the same lines of the same Cells, and the same results.

    A node may make what is a constant op by op. Where several gradients are added up (`one_gradient` is False), it may
    be in another order, and elsewhere.
    """
    spliced, singly = pair
    if one_gradient:
        made, expected = (Counter((n.op, n.cell, n.source) for n in p.nodes if n.op != "full") for p in pair)
        assert made == expected
    assert len(spliced.nodes) + len(spliced.constants) <= len(singly.nodes) + len(singly.constants)
    assert spliced.calls == singly.calls
    assert [*spliced.parameters, *spliced.updates] == [*singly.parameters, *singly.updates]
    tolerance = 0 if one_gradient else 1e-6
    for spliced_result, single_result in zip(results(spliced, *args), results(singly, *args), strict=True):
        np.testing.assert_allclose(spliced_result, single_result, rtol=tolerance, atol=tolerance)


def gradients(program: Program, function: Callable[[nn.GraphCell], Function], *args: Any, **settings: Any) -> Any:
    """What `function` of the program as a Cell is traced to, both ways."""
    return both_ways(lambda: trace(function(nn.GraphCell(program)), args, **settings).program)


# ---- the same as op by op ----


@pytest.mark.parametrize("name", [name for name in MODELS if name not in ("dataclasses", "mask when traced")])
@pytest.mark.every(6)
def test_gradients_of_models(name: str) -> None:
    module, args = MODELS[name]()
    program = from_torch(module, args, train=True)
    given = [x.numpy() for x in args]

    def function(cell: nn.GraphCell) -> Function:
        return ms.value_and_grad(cell, tuple(range(len(args))), cell.trainable_params() or None)

    require_same(gradients(program, function, *map(Tensor, given)), *given)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"loss_scale": "dynamic", "clip_norm": 0.1},
        {"loss_scale": 1024.0},
        {"accumulate": 2},
        {"frozen": ["block.*"]},
        {"frozen": ["head.weight"]},
    ],
    ids=str,
)
@pytest.mark.every(6)
def test_training_steps(settings: dict[str, Any]) -> None:
    program = captured(Net(), X)
    labels = np.array([0, 1, 2, 0], np.int32)
    batch = (BATCH, Tensor(labels))

    def build() -> Program:
        step = training_step(program, nn.CrossEntropyLoss(), lambda p: optim.AdamW(p, 1e-2), **settings)
        return training_program(step, batch).program

    pair = both_ways(build)
    assert {"block.1.running_mean", "block.1.running_var", "block.1.num_batches_tracked"} <= pair[0].updates.keys()
    require_same(pair, X, labels)


def test_nothing_is_derived_for_frozen_parameters() -> None:
    program = captured(Net(), X)

    def gradients_in(cell: str, frozen: list[str]) -> int:
        step = training_step(program, lambda y, t: (y * t).mean(), lambda p: optim.SGD(p, 0.1), frozen=frozen)
        traced = training_program(step, (BATCH, BATCH[:, :3])).program
        of_cell = [n for n in traced.nodes if traced.calls[n.cell].path == f"network.{cell}"]
        return sum(n.op == "boundary" and n.attributes["kind"].endswith("gradient") for n in of_cell)

    assert gradients_in("block.0", []) > gradients_in("block.0", ["block.*"]) == 0
    assert gradients_in("head", ["block.*"]) > 0


def test_several_calls_of_one_program() -> None:
    program = captured(Net(), X)

    def function(cell: nn.GraphCell) -> Function:
        return ms.value_and_grad(lambda x: (cell(x) * cell(x + 1)).mean(), 0, cell.trainable_params())

    require_same(gradients(program, function, BATCH), X, one_gradient=False)


def test_shared_parameters() -> None:
    module, args = MODELS["shared three ways"]()
    program = from_torch(module, args, train=True)

    def function(cell: nn.GraphCell) -> Function:
        return ms.grad(lambda x: cell(x).sum() + (cell.a.weight * cell.a.weight).sum(), None, cell.trainable_params())

    require_same(gradients(program, function, BATCH), X, one_gradient=False)


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.every(2)
def test_higher_derivatives(order: int) -> None:
    program = captured(Smooth(), X)

    def function(cell: nn.GraphCell) -> Function:
        nested: Function = cell
        for _ in range(order - 1):
            nested = ms.grad(nested)
        return ms.value_and_grad(nested, 0, cell.trainable_params())

    require_same(gradients(program, function, BATCH), X, one_gradient=False)


def test_a_penalty_on_the_gradient_of_the_call_that_gives_the_loss() -> None:
    program = captured(Smooth(), X)

    def function(cell: nn.GraphCell) -> Function:
        def loss(x: Any) -> Any:
            y, slope = ms.value_and_grad(cell)(x)
            return (y * y).mean() + (slope * slope).sum()

        return ms.value_and_grad(loss, 0, cell.trainable_params())

    require_same(gradients(program, function, BATCH), X, one_gradient=False)


def test_derivatives_in_a_direction() -> None:
    program = captured(Smooth(), X)
    require_same(
        gradients(program, lambda cell: lambda x, v: ops.jvp(cell, x, v), BATCH, BATCH), X, X, one_gradient=False
    )


def test_open_sizes() -> None:
    program = captured(Net(), X, dynamic_shapes=({0: "batch"},))

    def function(cell: nn.GraphCell) -> Function:
        return ms.value_and_grad(lambda x: (cell(x) * cell(x)).mean(), 0, cell.trainable_params())

    for settings in ({"dynamic_shapes": ({0: "n"},)}, {}):
        require_same(gradients(program, function, BATCH, **settings), X, one_gradient=False)


def test_sizes_that_values_decide() -> None:
    class Found(torch_nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.act = torch_nn.Tanh()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (self.act(x[x > 0]) * 2).sum() + torch.nonzero(x[0]).sum()

    program = captured(Found(), X)
    # called twice: each call counts anew
    pair = gradients(program, lambda cell: ms.value_and_grad(lambda x: cell(x) + cell(1 - x)), BATCH)
    for x in (X, -X):
        require_same(pair, x, one_gradient=False)


def test_under_a_condition_on_a_tensor() -> None:
    program = captured(Net(), X)

    def function(cell: nn.GraphCell) -> Function:
        def chosen(x: Any) -> Any:
            if x.sum() > 0:
                y = cell(x)
            else:
                y = x[:, :3] * cell.head.bias
            return (y * y).mean()

        return ms.value_and_grad(chosen, 0, cell.trainable_params())

    spliced, singly = gradients(program, function, BATCH)
    for x in (abs(X), -abs(X)):
        for spliced_result, single_result in zip(results(spliced, x), results(singly, x), strict=True):
            np.testing.assert_allclose(spliced_result, single_result, rtol=1e-6, atol=1e-6)


def test_without_gradients() -> None:
    program = captured(Smooth(), X)

    def function(cell: nn.GraphCell) -> Function:
        def partly(x: Any) -> Any:
            with ms._no_grad():
                fixed = cell(x)
            return (fixed * cell(x)).sum()

        return partly

    spliced, singly = gradients(program, function, BATCH)
    assert len(spliced.nodes) < len(singly.nodes)  # only what comes out is cut off
    spliced_result, single_result = (p.value_and_grad(X.numpy()) for p in (spliced, singly))
    np.testing.assert_allclose(spliced_result[0], single_result[0], rtol=1e-6)
    np.testing.assert_allclose(spliced_result[1].inputs[0], single_result[1].inputs[0], rtol=1e-5, atol=1e-6)
    assert spliced_result[1].inputs[0].any()


def test_a_tensor_that_is_given_tracked_and_untracked() -> None:
    program = captured(Times(), X, X.clone())
    weight = Parameter(X.numpy(), "weight")

    def function(cell: nn.GraphCell) -> Function:
        return ms.grad(lambda: cell(weight, weight.data), None, [weight])

    for traced in gradients(program, function):
        np.testing.assert_array_equal(results(traced)[0], X)


def test_a_tensor_that_is_given_under_two_numbers() -> None:
    program = captured(Times(), X, X.clone())

    def function(cell: nn.GraphCell) -> Function:
        return ms.grad(lambda x: ms.grad(lambda y: cell(x, y))(x))  # of x, the inner one being x

    for traced in gradients(program, function, BATCH):
        np.testing.assert_array_equal(results(traced, X)[0], np.ones_like(X))


def test_gradients_of_integers() -> None:
    class Scaled(torch_nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.identity = torch_nn.Identity()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (self.identity(x) * 2).float() * 3

    counts = np.arange(6)
    pair = gradients(captured(Scaled(), torch.from_numpy(counts)), ms.grad, Tensor(counts))
    require_same(pair, counts)
    np.testing.assert_array_equal(results(pair[0], counts)[0], np.full(6, 6))


def test_a_constant_result_of_a_gradient_is_no_node() -> None:
    """The gradient that arrives is known, and so is what is computed of it alone."""

    class Mean(torch_nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.flatten = torch_nn.Flatten(0)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.flatten(x).mean()

    pair = gradients(captured(Mean(), X), ms.grad, BATCH)
    require_same(pair, X)
    np.testing.assert_allclose(results(pair[0], X)[0], np.full(X.shape, 1 / X.numel()))


# ---- op by op, where a run isn't that of the program alone ----


class Twice(nn.Cell):
    def construct(self, x: Any) -> Any:
        return x * 2


def _share_partly(cell: nn.GraphCell) -> None:
    cell.c.weight = Parameter(np.zeros_like(cell.c.weight.asnumpy()))


def _widen(cell: nn.GraphCell) -> None:
    cell.body._cells["0"].weight = Parameter(np.ones((5, 6), np.float64))
    cell.body._cells["0"].bias = Parameter(np.ones(5, np.float64))


def _set_backward(cell: nn.GraphCell) -> None:
    cell.body.bprop = lambda x, out, dout: (dout * x,)


CHANGES: dict[str, Callable[[nn.GraphCell], Any]] = {
    "a hook": lambda cell: cell.body._cells["0"].register_forward_hook(lambda *_: _[2] * 3),
    "a backward hook": lambda cell: cell.body.register_backward_hook(lambda *_: None),
    "another Cell": lambda cell: cell.body._cells.__setitem__("1", Twice()),
    "a dtype": lambda cell: cell.to_float(ms.float16),
    "a dtype of a part": lambda cell: cell.body._cells["2"].to_float(ms.float16),
    "mixed precision": lambda cell: auto_mixed_precision(cell, "O2"),
    "mixed precision by op": lambda cell: auto_mixed_precision(cell, "auto"),
    "a backward pass": _set_backward,
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.every(2)
def test_changed_cells_run_op_by_op(change: str) -> None:
    cell = nn.GraphCell(captured(Smooth(), X))
    before = cell(BATCH).asnumpy()
    CHANGES[change](cell)
    function = ms.value_and_grad(cell, 0, cell.trainable_params())
    with counted() as singly_run:
        program = trace(function, (BATCH,)).program
    assert singly_run["linear"] == 2
    y, (to_input, to_weights) = function(BATCH)
    for actual, expected in zip(results(program, X), [y, to_input, *to_weights], strict=True):
        np.testing.assert_allclose(actual, expected.asnumpy(), rtol=2e-3, atol=2e-3)
    if change in ("a hook", "another Cell"):
        assert not np.allclose(y.asnumpy(), before)


def test_a_shared_parameter_that_was_replaced_in_one_place() -> None:
    module, args = MODELS["shared three ways"]()
    cell = nn.GraphCell(from_torch(module, args))
    before = cell(BATCH).asnumpy()
    _share_partly(cell)
    program = trace(cell, (BATCH,)).program
    np.testing.assert_array_equal(program(X), cell(BATCH).asnumpy())
    assert not np.allclose(program(X), before)


def test_a_parameter_of_another_shape() -> None:
    cell = nn.GraphCell(captured(Smooth(), X))
    cell.body._cells["2"].weight = Parameter(np.ones((7, 5), np.float32))
    cell.body._cells["2"].bias = Parameter(np.ones(7, np.float32))
    program = trace(cell, (BATCH,)).program
    assert program.outputs[0].shape == (4, 7)
    np.testing.assert_array_equal(program(X), cell(BATCH).asnumpy())


def test_a_replaced_parameter_of_the_same_type_is_used() -> None:
    cell = nn.GraphCell(captured(Smooth(), X))
    cell.body._cells["2"].bias = Parameter(np.full(1, 9, np.float32))
    with counted() as singly_run:
        program = trace(cell, (BATCH,)).program
    assert not +singly_run
    np.testing.assert_array_equal(program(X), cell(BATCH).asnumpy())


def test_a_compiled_step_notices_a_cell_that_is_changed_later() -> None:
    cell = nn.GraphCell(captured(Smooth(), X))
    step = ms.compile_train_step(cell, lambda y, t: (y * t).mean(), lambda p: optim.SGD(p, 0.0), provider="cpu")
    ones = np.ones((4, 1), np.float32)
    first = step(X.numpy(), ones)
    cell.body.register_forward_hook(lambda _, inputs, output: output * 2)
    np.testing.assert_allclose(step(X.numpy(), ones), 2 * first, rtol=1e-5)


# ---- errors ----


def test_an_op_without_gradient_is_named_with_its_cell() -> None:
    program = captured(Smooth(), X)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(get("silu"), "vjp_rule", None)
        patch.setattr(get("silu"), "no_vjp_reason", "it was taken away")
        with pytest.raises(
            ProgramError, match=r"op silu in Cell .*body.1 has no gradient: it was(?s:.*)return self.body"
        ):
            trace(ms.grad(nn.GraphCell(program)), (BATCH,))


def test_a_difference_is_noticed() -> None:
    program = captured(Smooth(), X)
    spliced, singly = gradients(program, ms.grad, BATCH)
    place = next(i for i, node in enumerate(spliced.nodes) if node.op == "linear")
    node = spliced.nodes[place]
    moved = spliced.replace(nodes=(*spliced.nodes[:place], replace(node, cell=0), *spliced.nodes[place + 1 :]))
    with pytest.raises(AssertionError):
        require_same((moved, singly), X)
    with pytest.raises(AssertionError):
        require_same((spliced.replace(outputs=spliced.inputs), singly), X)
    doubled = singly.replace(nodes=(*singly.nodes, replace(node, outputs=())))
    with pytest.raises(AssertionError):
        require_same((doubled, singly), X, one_gradient=False)
