"""Cells and functions become programs: Parameters, Cells, sources, sizes and draws are what they are in Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import cellbridge.runtime as ms
from cellbridge.converter import to_onnx
from cellbridge.runtime import Parameter, Tensor, UsageError, nn, ops
from cellbridge.runtime.graph import trace
from cellbridge.runtime.ir.dims import symbol
from cellbridge.runtime.ir.program import Program

X = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
Y = np.array([0, 1, 0], np.int32)


class Block(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Dense(4, 4)
        self.norm = nn.BatchNorm1d(4)

    def construct(self, x: Any, *, scale: Any = 1.0) -> Any:
        return x + ops.relu(self.norm(self.fc(x))) * scale


class Net(nn.Cell):
    """The block is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.block = Block()
        self.drop = nn.Dropout(p=0.5)
        self.head = nn.Dense(4, 2)

    def construct(self, x: Any) -> Any:
        return self.head(self.drop(self.block(self.block(x), scale=2.0)))


def ran(program: Program, *args: Any) -> Any:
    ms.set_seed(0)
    return program(*args)


def eager(function: Any, *args: Any) -> Any:
    ms.set_seed(0)
    result = function(*args)
    return tuple(y.asnumpy() for y in result) if isinstance(result, tuple) else result.asnumpy()


def test_a_program_has_the_cells_and_parameters_of_the_network() -> None:
    net = Net()
    traced = trace(net, (Tensor(X),))
    paths = [(call.path, call.class_name, call.index, call.parent) for call in traced.program.calls]
    assert paths == [
        ("", "Net", 0, None),
        ("block", "Block", 0, 0),
        ("block.fc", "Dense", 0, 1),
        ("block.norm", "BatchNorm1d", 0, 1),
        ("block", "Block", 1, 0),
        ("block.fc", "Dense", 1, 4),
        ("block.norm", "BatchNorm1d", 1, 4),
        ("drop", "Dropout", 0, 0),
        ("head", "Dense", 0, 0),
    ]
    assert traced.parameters == dict(net.parameters_and_names())
    assert all(parameter.trainable for parameter in traced.program.parameters.values())
    assert set(traced.program.buffers) == {"block.norm.moving_mean", "block.norm.moving_variance"}
    assert not traced.program.updates
    np.testing.assert_array_equal(ran(traced.program, X), eager(net, Tensor(X)))


def test_the_values_that_enter_and_leave_a_cell_are_marked() -> None:
    program = trace(Net(), (Tensor(X),)).program
    marks = [node for node in program.nodes if node.op == "boundary"]
    boundaries = [(n.attributes["call"], n.attributes["kind"], n.attributes["slot"], n.cell) for n in marks[:4]]
    assert boundaries == [(0, "input", "x", 0), (1, "input", "x", 1), (2, "input", "x", 2), (2, "output", "result", 2)]
    assert [cell.path for cell in program.cells()][1] == "block"
    block = program.cells()[1].program
    assert len(block.inputs) == 1
    assert {*block.parameters, *block.buffers} == {f"block.{n}" for n, _ in Block().parameters_and_names()}


def test_nodes_come_from_the_users_lines() -> None:
    program = trace(Net(), (Tensor(X),)).program
    (relu, _) = [node for node in program.nodes if node.op == "relu"]
    assert relu.source is not None
    assert relu.source.file == __file__
    assert relu.source.text == "return x + ops.relu(self.norm(self.fc(x))) * scale"
    linear = next(node for node in program.nodes if node.op == "linear")
    assert linear.source == relu.source.__class__(relu.source.file, relu.source.line, relu.source.text, "linear")


def test_moving_statistics_are_updates_of_the_program_and_stay_in_python() -> None:
    net = Net().set_train()
    before = {name: parameter.asnumpy() for name, parameter in net.parameters_and_names()}
    program = trace(net, (Tensor(X),)).program
    assert program.train
    assert set(program.updates) == {"block.norm.moving_mean", "block.norm.moving_variance"}
    for name, parameter in net.parameters_and_names():
        np.testing.assert_array_equal(parameter.asnumpy(), before[name])
    arrays = ms.execute(program, [X], wanted=list(program.updates.values()))
    net(Tensor(X))
    for name, array in zip(program.updates, arrays, strict=True):
        np.testing.assert_array_equal(array, dict(net.parameters_and_names())[name].asnumpy())


def test_gradients_are_part_of_the_program_and_belong_to_the_cells_of_their_forward() -> None:
    net = Net().set_train()
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")

    def forward(x: Any, y: Any) -> Any:
        return loss(net(x), y)

    function = ms.value_and_grad(forward, 0, net.trainable_params())
    program = trace(function, (Tensor(X), Tensor(Y))).program
    assert [call.path for call in program.calls[:3]] == ["", "net", "net.block"]
    assert program.calls[-1].path == "loss"
    ms.set_seed(0)
    value, (of_x, of_weights) = function(Tensor(X), Tensor(Y))
    traced_value, (traced_x, traced_weights) = ran(program, X, Y)
    np.testing.assert_array_equal(traced_value, value.asnumpy())
    for got, expected in zip((traced_x, *traced_weights), (of_x, *of_weights), strict=True):
        np.testing.assert_allclose(got, expected.asnumpy(), rtol=1e-6, atol=1e-7)
    back = [node for node in program.nodes if node.attributes.get("kind") == "input_gradient"]
    assert [program.calls[n.cell].path for n in back][:3] == ["loss", "net.head", "net.drop"]
    rule = next(node for node in program.nodes if node.op == "less_equal")  # of relu
    assert program.calls[rule.cell].path == "net.block"
    assert rule.source is not None
    assert rule.source.operator == "relu"


@pytest.mark.parametrize(
    "shapes", [({0: "batch"},), (["batch", None],), {"x": {0: "batch"}}], ids=["axes", "list", "by name"]
)
def test_sizes_may_be_symbolic(shapes: Any) -> None:
    net = Net()
    program = trace(net, (Tensor(X),), dynamic_shapes=shapes).program
    assert program.inputs[0].shape == (symbol("batch"), 4)
    assert program.outputs[0].shape == (symbol("batch"), 2)
    for batch in (1, 5):
        x = np.random.default_rng(1).standard_normal((batch, 4)).astype(np.float32)
        np.testing.assert_array_equal(ran(program, x), eager(net, Tensor(x)))


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (({0: "batch"}, None), "needed a dict or a tuple of at most 1"),
        ({"y": {0: "n"}}, "no argument 'y'"),
        (({2: "n"},), "x has 2 axes"),
        (({0: "a b"},), "identifier"),
        ((["n"],), "x has 2 axes"),
    ],
)
def test_specs_of_sizes_that_do_not_fit_are_refused(shapes: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        trace(Net(), (Tensor(X),), dynamic_shapes=shapes)


def test_draws_are_new_in_each_run_and_follow_the_seed() -> None:
    def draws(x: Any) -> Any:
        return ops.dropout(x, 0.5), ops.standard_normal((3,)), ops.bernoulli(Tensor(np.full(50, 0.5, np.float32)))

    program = trace(draws, (Tensor(X),)).program
    first = ran(program, X)
    for got, expected in zip(first, eager(draws, Tensor(X)), strict=True):
        np.testing.assert_array_equal(got, expected)
    assert all((a != b).any() for a, b in zip(first, program(X), strict=True))


def test_draws_with_a_seed_of_their_own_are_the_same_in_each_run() -> None:
    program = trace(lambda x: x + ops.standard_normal((4,), seed=3), (Tensor(X),)).program
    np.testing.assert_array_equal(program(X), program(X))
    np.testing.assert_array_equal(program(X), (Tensor(X) + ops.standard_normal((4,), seed=3)).asnumpy())


def test_what_does_not_depend_on_arguments_and_parameters_is_computed_at_once() -> None:
    table = Tensor(np.arange(8, dtype=np.float32).reshape(2, 4))
    program = trace(lambda x: x + ops.exp(table).sum(0), (Tensor(X),)).program
    assert [node.op for node in program.nodes] == ["boundary", "add", "boundary"]


def test_a_parameter_of_no_cell_is_stored_under_its_name() -> None:
    weight, unused = Parameter(X[0], name="weight"), Parameter(X, name="unused")
    frozen = Parameter(X[1], name="weight", requires_grad=False)
    held = {"w": [weight, unused, frozen]}

    def function(x: Any) -> Any:
        w, second, third = held["w"]
        return x * w + third.value() if second.shape else x

    traced = trace(function, (Tensor(X),))
    assert traced.parameters["weight"] is weight
    assert traced.parameters["weight_1"] is frozen
    assert [p.trainable for p in traced.program.parameters.values()] == [True, False]
    np.testing.assert_array_equal(traced.program(X), X * X[0] + X[1])


def test_what_is_assigned_to_a_parameter_is_an_update() -> None:
    class Counts(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.count = Parameter(np.zeros((), np.float32), requires_grad=False)
            self.last = Parameter(X[0], requires_grad=False)

        def construct(self, x: Any) -> Any:
            ops.assign_add(self.count, Tensor(np.ones((), np.float32)))
            self.last = x[0]
            self.last.set_data(self.last * 2)
            return x * self.count + self.last

    cell = Counts()
    program = trace(cell, (Tensor(X),)).program
    assert set(program.updates) == {"count", "last"}
    np.testing.assert_array_equal(program(X), X + X[0] * 2)
    count, last = ms.execute(program, [X], wanted=list(program.updates.values()))
    assert count == 1
    np.testing.assert_array_equal(last, X[0] * 2)
    assert cell.count.asnumpy() == 0


def test_everything_is_restored_after_an_exception() -> None:
    class Breaks(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.weight = Parameter(X, name="weight")

        def construct(self, x: Any) -> Any:
            self.weight.set_data(x * 2)
            raise KeyError("broken")

    cell = Breaks()
    with pytest.raises(KeyError, match="broken"):
        trace(ms.grad(cell, None, cell.trainable_params()), (Tensor(X),))
    np.testing.assert_array_equal(cell.weight.asnumpy(), X)
    assert cell.weight._tape is None
    np.testing.assert_array_equal((cell.weight + Tensor(X)).asnumpy(), X + X)


def test_structures_of_arguments_and_results() -> None:
    def function(pair: Any, factor: float, *, named: Any) -> Any:
        return {"sum": pair[0] + pair[1] * factor, "rest": [named["a"], (named["a"].sum(), 3)]}

    program = trace(function, ((Tensor(X), X), 2.0), {"named": {"a": Tensor(Y)}}).program
    assert [value.name for value in program.inputs] == ["pair_0", "pair_1", "named_a"]
    result = program((X, X), 2.0, named={"a": Y})
    np.testing.assert_array_equal(result["sum"], X * 3)
    np.testing.assert_array_equal(result["rest"][0], Y)
    assert result["rest"][1][1] == 3
    with pytest.raises(UsageError, match=r"captured with 2\.0, given 3\.0"):
        program((X, X), 3.0, named={"a": Y})


def test_a_program_is_saved_and_exported(tmp_path: Any) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    net = Net()
    program = trace(net, (Tensor(X),), dynamic_shapes=({0: "batch"},)).program
    program.save(tmp_path / "net.cell")
    np.testing.assert_array_equal(ms.load(tmp_path / "net.cell")(X), program(X))
    model = to_onnx(program)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {session.get_inputs()[0].name: X})
    np.testing.assert_allclose(y, program(X), rtol=1e-5, atol=1e-6)


def test_only_functions_and_cells_are_traced() -> None:
    with pytest.raises(UsageError, match="needed a Cell or a function"):
        trace(3, (X,))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"given torch's Linear: `converter\.from_torch"):
        trace(torch.nn.Linear(3, 2), (X,))
    with pytest.raises(UsageError, match="args must be a tuple"):
        trace(Net(), [X])  # type: ignore[arg-type]
    net = Net()
    with pytest.raises(UsageError, match="while Python is traced"):
        trace(lambda x: trace(net, (x,)), (X,))
