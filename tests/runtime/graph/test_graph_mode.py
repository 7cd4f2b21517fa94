"""Graph mode: Cells and gradient functions that are called are compiled whole, and give the numbers of eager mode."""

from __future__ import annotations

import copy
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import cellbridge.runtime as ms
from cellbridge.runtime import Tensor, UnsupportedPython, context, nn, ops
from cellbridge.runtime.errors import UsageError
from cellbridge.runtime.graph import program_runner
from tests.runtime.graph.test_training_steps import Net, X, Y, state, with_loss


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(program_runner, "execute", None)  # the interpreter isn't to be called
    yield
    ms.set_context(mode=ms.PYNATIVE_MODE)


def traces(owner: Any) -> int:
    """How often what a Cell or function keeps was traced."""
    return sum(cache.info.traces for cache in owner.__dict__.get("_compiled", {}).values())


def in_both_modes(make: Callable[[], Any], use: Callable[[Any], Any]) -> tuple[Any, Any, Any]:
    """What `use` gives in eager and in graph mode, from the same seeds, and what it was used on."""
    results = []
    made: Any = None
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        ms.set_context(mode=ms.PYNATIVE_MODE)
        ms.set_seed(0)
        made = make()
        ms.set_context(mode=mode)
        ms.set_seed(1)
        results.append(use(made))
    return results[0], results[1], made


def assert_same(a: Any, b: Any) -> None:
    if isinstance(a, (tuple, list)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    elif isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            assert_same(a[key], b[key])
    elif isinstance(a, (Tensor, np.ndarray)):
        np.testing.assert_allclose(np.asarray(b), np.asarray(a), rtol=2e-5, atol=1e-6)
    else:
        assert a == b


def test_a_cell_that_is_called_is_compiled_with_all_within() -> None:
    eager, graph, net = in_both_modes(lambda: Net().set_train(), lambda net: [net(Tensor(X)) for _ in range(3)])
    assert_same(eager, graph)
    assert traces(net) == 1
    assert all(traces(inner) == 0 for path, inner in net.cells_and_names() if path)


def test_a_network_that_was_called_before_set_train_trains_afterwards() -> None:
    def use(net: Net) -> Any:
        first = net(Tensor(X))
        net.set_train()
        return first, net(Tensor(X)), net.set_train(False)(Tensor(X))

    eager, graph, net = in_both_modes(Net, use)
    assert_same(eager, graph)
    assert traces(net) == 2


@pytest.mark.parametrize(
    "gradient",
    [
        lambda net, x: ms.grad(net)(x),
        lambda net, x: ms.grad(net, None, net.trainable_params())(x),
        lambda net, x: ms.value_and_grad(net, 0, net.trainable_params())(x),
        lambda net, x: ms.GradOperation(get_all=True, get_by_list=True)(net, net.trainable_params())(x),
        lambda net, x: ms.GradOperation(sens_param=True)(net)(x, ops.ones((5, 3))),
        lambda net, x: ms.value_and_grad(lambda x: (net(x) ** 2).sum(), 0, net.trainable_params())(x),
        lambda net, x: ms.grad(ms.grad(lambda x: (x**3).sum()))(x),
    ],
    ids=["grad", "weights", "both", "GradOperation", "sens", "of a function", "second"],
)
def test_gradient_functions_are_compiled(gradient: Any) -> None:
    eager, graph, _ = in_both_modes(lambda: Net().set_train(), lambda net: gradient(net, Tensor(X)))
    assert_same(eager, graph)


def test_a_gradient_function_that_is_made_anew_is_not_traced_anew() -> None:
    net = Net()
    ms.set_context(mode=ms.GRAPH_MODE)
    for _ in range(3):
        ms.grad(net)(Tensor(X))
        ms.grad(net, None, net.trainable_params())(Tensor(X))
    assert traces(net) == 2


def test_training_as_scripts_write_it() -> None:
    def use(network: nn.Cell) -> Any:
        optimizer = nn.Adam(network.trainable_params(), nn.CosineDecayLR(0.0, 0.1, 8))
        gradient = ms.value_and_grad(network, None, optimizer.parameters)
        losses = []
        for _ in range(4):
            loss, gradients = gradient(Tensor(X), Tensor(Y))
            optimizer(ops.clip_by_global_norm(gradients, 1.0))
            losses.append(loss)
        return losses, state(network), state(optimizer)

    assert_same(*in_both_modes(lambda: with_loss().set_train(), use)[:2])


@pytest.mark.parametrize("scale", [None, 1024.0, "dynamic"])
@pytest.mark.every(2)
def test_training_steps(scale: Any) -> None:
    def make() -> nn.Cell:
        network = with_loss()
        if scale == "dynamic":
            update = nn.DynamicLossScaleUpdateCell(2.0**10, 2, 2)
            optimizer: nn.Optimizer = nn.AdamWeightDecay(network.trainable_params(), 0.1)
            return nn.TrainOneStepWithLossScaleCell(network, optimizer, update).set_train()
        optimizer = nn.Momentum(network.trainable_params(), 0.1, 0.9, loss_scale=scale or 1.0)
        return nn.TrainOneStepCell(network, optimizer, scale).set_train()

    def use(step: nn.Cell) -> Any:
        results = []
        for factor in (1.0, np.inf, 1.0, 1.0) if scale == "dynamic" else (1.0,) * 3:
            results.append(step(Tensor((X * factor).astype(np.float32)), Tensor(Y)))
        return results, state(step)

    eager, graph, step = in_both_modes(make, use)
    assert_same(eager, graph)
    assert traces(step) == 1


def test_batches_of_any_size_train_with_two_traces() -> None:
    def use(step: nn.Cell) -> Any:
        return [step(Tensor(np.resize(X, (n, 4))), Tensor(np.resize(Y, n))) for n in (5, 3, 4, 2, 6)], state(step)

    def make() -> nn.Cell:
        network = with_loss()
        return nn.TrainOneStepCell(network, nn.Momentum(network.trainable_params(), 0.1, 0.9)).set_train()

    eager, graph, step = in_both_modes(make, use)
    assert_same(eager, graph)
    assert traces(step) == 2


def test_a_forward_that_is_kept_for_its_gradient_runs_once() -> None:
    def make() -> nn.Cell:
        network = Net().set_train()
        return nn.ForwardValueAndGrad(network, network.trainable_params(), get_by_list=True)

    eager, graph, cell = in_both_modes(make, lambda cell: cell(Tensor(X)))
    assert_same(eager, graph)
    moved = cell.network.norm.moving_mean.asnumpy()
    twin = Net().set_train()
    twin.fc.weight.set_data(cell.network.fc.weight)
    ms.set_context(mode=ms.PYNATIVE_MODE)
    twin(Tensor(X))
    np.testing.assert_allclose(moved, twin.norm.moving_mean.asnumpy(), rtol=1e-5)


def test_a_backward_pass_written_by_hand() -> None:
    class Clipped(nn.Cell):
        def construct(self, x: Any) -> Any:
            return x * 2

        def bprop(self, x: Any, out: Any, dout: Any) -> Any:
            return (ops.clamp(dout * out, -1.0, 1.0),)

    assert_same(*in_both_modes(Clipped, lambda cell: ms.grad(lambda x: ops.sin(cell(x)).sum())(Tensor(X)))[:2])


class Written(nn.Cell):
    """Its backward pass is no derivative, and it uses a Parameter and the output."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = ms.Parameter(Tensor([2.0, -1.0, 0.5]), name="weight")

    def construct(self, x: Any, count: Any) -> Any:
        return x * self.weight, count + 1

    def bprop(self, x: Any, count: Any, out: Any, dout: Any) -> Any:
        return dout[0] * 10 * self.weight + out[0], None


def test_a_backward_pass_written_by_hand_counts_wherever_the_gradient_is_asked_for() -> None:
    cell, x, count = Written(), Tensor(X[:, :3]), Tensor([1], ms.int32)

    def loss(x: Any) -> Any:
        y, number = cell(ops.sin(x), count)
        return (y * number).sum()

    expected = ms.grad(loss)(x)
    program = ms.trace(loss, (x,), dynamic_shapes=({0: "n"},)).program
    of_graph = nn.GraphCell(program)
    np.testing.assert_allclose(ms.grad(ms.jit(loss))(x), expected, rtol=1e-5)
    np.testing.assert_allclose(ms.jit(ms.grad(loss))(x), expected, rtol=1e-5)
    np.testing.assert_allclose(ms.grad(of_graph)(x), expected, rtol=1e-5)
    for side in (program, ms.compile(program)):
        for rows in (x, x[:2]):
            _, gradients = side.value_and_grad(rows.asnumpy())
            np.testing.assert_allclose(gradients.inputs[0], ms.grad(loss)(rows), rtol=1e-5)
    second_order = ms.grad(lambda x: ms.grad(ms.jit(loss))(x).sum())(x)
    np.testing.assert_allclose(second_order, ms.grad(lambda x: ms.grad(loss)(x).sum())(x), rtol=1e-5)


def test_a_backward_pass_written_by_hand_in_half_precision_is_that_of_eager_mode() -> None:
    class Large(nn.Cell):
        def construct(self, x: Any) -> Any:
            return (x * 2).astype(ms.float32)

        def bprop(self, x: Any, out: Any, dout: Any) -> Any:
            return dout * 1e6  # beyond what float16 holds

    cell, x = Large().to_float(ms.float16), Tensor(X)
    jitted = ms.jit(cell)
    assert jitted(x).dtype == cell(x).dtype == ms.float32
    np.testing.assert_array_equal(ms.grad(jitted)(x), ms.grad(cell)(x))
    np.testing.assert_array_equal(ms.jit(ms.grad(cell))(x), ms.grad(cell)(x))
    assert np.isfinite(ms.grad(jitted)(x).asnumpy()).all()


def test_a_backward_pass_that_is_no_program_is_refused_where_it_is_asked_for() -> None:
    class InNumpy(nn.Cell):
        def construct(self, x: Any) -> Any:
            return x * 2

        def bprop(self, x: Any, out: Any, dout: Any) -> Any:
            return (Tensor(np.clip(dout.asnumpy(), -1, 1)),)

    jitted = ms.jit(InNumpy())
    np.testing.assert_allclose(jitted(Tensor(X)), X * 2)
    with pytest.raises(UnsupportedPython, match=r"(?s)the backward pass of InNumpy is hand-written.*np\.clip"):
        ms.grad(jitted)(Tensor(X))


def test_gradients_that_are_replaced_or_cut_are_so_in_programs() -> None:
    def replaced(x: Any) -> Any:
        return (ops.InsertGradientOf(lambda g: g * 10)(x * 2) * x).sum()

    def cut(x: Any) -> Any:
        with ms._no_grad():
            y = ops.sin(x)
        return (y * x).sum()

    for function in (replaced, cut):
        np.testing.assert_allclose(ms.grad(ms.jit(function))(Tensor(X)), ms.grad(function)(Tensor(X)), rtol=1e-5)


@pytest.mark.parametrize(
    ("kind", "hook"),
    [
        ("forward_pre", lambda cell, inputs: (inputs[0] * 10,)),
        ("forward", lambda cell, inputs, output: output * 100),
        ("backward_pre", lambda cell, arrived: (arrived[0] * 3,)),
        (
            "backward",
            lambda cell, gradients, arrived: [g if g is None else g * 5 + arrived[0].sum() for g in gradients],
        ),
    ],
)
@pytest.mark.every(2)
def test_hooks_act_in_both_modes(kind: str, hook: Any) -> None:
    net = Net()
    without = ms.grad(net)(Tensor(X)).asnumpy()
    handle = getattr(net.fc, f"register_{kind}_hook")(hook)

    def results() -> list[Any]:
        step = nn.TrainOneStepCell(net, nn.SGD(net.trainable_params(), 1e-3))
        weights = list(net.trainable_params())
        _, (by_x, by_weights) = ms.value_and_grad(net, 0, weights)(Tensor(X))
        before = [w.asnumpy() for w in weights]
        values = [net(Tensor(X)), by_x, *by_weights, step(Tensor(X)), *weights]
        values = [x.asnumpy() for x in values]
        for weight, array in zip(weights, before, strict=True):
            weight.set_data(Tensor(array))
        return values

    eager = results()
    ms.set_context(mode=ms.GRAPH_MODE)
    for compiled, expected in zip(results(), eager, strict=True):
        np.testing.assert_allclose(compiled, expected, rtol=1e-4, atol=1e-5)
    assert not np.allclose(ms.grad(net)(Tensor(X)).asnumpy(), without)
    handle.remove()
    np.testing.assert_allclose(ms.grad(net)(Tensor(X)).asnumpy(), without, rtol=1e-5, atol=1e-6)


def test_copies_have_programs_of_their_own() -> None:
    net = Net()
    ms.set_context(mode=ms.GRAPH_MODE)
    net(Tensor(X))
    twin = copy.deepcopy(net)
    twin.head.bias.set_data(twin.head.bias + 1)
    first, second = net(Tensor(X)), twin(Tensor(X))
    assert (first != second).any()
    assert traces(net) == traces(twin) == 1


def test_only_what_is_called_in_graph_mode_is_compiled() -> None:
    assert context.compiler() is None
    net = Net()
    net(Tensor(X))
    assert traces(net) == 0
    ms.set_context(mode=ms.GRAPH_MODE)
    assert context.compiler() is not None
    net(Tensor(X))
    ms.set_context(mode=ms.PYNATIVE_MODE)
    net(Tensor(X))
    assert traces(net) == 1


def test_sizes_in_results_are_numbers() -> None:
    @ms.jit
    def sizes(x: Any) -> Any:
        return x * 2, x.shape[0], {"all": x.shape}

    for rows in (2, 3, 5):
        assert sizes(Tensor(np.ones((rows, 4), np.float32)))[1:] == (rows, {"all": (rows, 4)})
    program = ms.trace(lambda x: (x * 2, x.shape[0]), (Tensor(X),), dynamic_shapes=({0: "n"},)).program
    for side in (program, ms.compile(program)):
        assert side(np.ones((7, X.shape[1]), np.float32))[1] == 7


def test_a_size_that_is_looked_up_is_a_number() -> None:
    table = {2: 10.0, 3: 20.0}
    looked_up = ms.jit(lambda x: x * table.get(x.shape[0], -1.0))
    assert [float(looked_up(Tensor(np.ones((n, 1), np.float32)))[0, 0]) for n in (2, 3, 4)] == [10.0, 20.0, -1.0]


def test_results_without_a_tensor_and_parameters_as_results() -> None:
    weight = ms.Parameter(Tensor([1.0, 2.0]), name="w")
    assert ms.jit(lambda x: None)(Tensor(X)) is None
    assert ms.jit(lambda x: x.shape)(Tensor(X)) == X.shape
    np.testing.assert_array_equal(ms.jit(lambda x: weight)(Tensor(X)), weight)


def test_a_hook_on_a_parameter_counts_after_the_first_call_too() -> None:
    net = Net()
    ms.set_context(mode=ms.GRAPH_MODE)
    gradient = ms.grad(lambda x: net(x).sum(), None, [net.fc.weight])
    gradient(Tensor(X))
    net.fc.weight.register_hook(lambda g: g * 100)
    with pytest.raises(UnsupportedPython, match="hooks"):
        gradient(Tensor(X))


def test_bfloat16_gradients_at_several_sizes() -> None:
    gradient = ms.jit(ms.grad(ops.relu))
    for rows in (2, 3, 5):
        x = Tensor(np.ones((rows, 4), np.float32)).astype(ms.bfloat16)
        assert (gradient(x).astype(ms.float32) == 1).all()


@pytest.mark.parametrize("label", [-1, 3])
def test_labels_that_are_no_class_fail(label: int) -> None:
    x, target = Tensor([[1.0, 2.0, 3.0]]), Tensor([label], ms.int32)
    message = r"label is out of range\n  operator .* at .*test_graph_mode.py.*\n  what to do: .* number of classes"
    for function in (ms.jit(nn.CrossEntropyLoss()), ms.compile(ms.trace(nn.CrossEntropyLoss(), (x, target)).program)):
        with pytest.raises(ValueError, match=message) as caught:
            function(x, target)
        assert isinstance(caught.value, (UsageError, IndexError))


def test_an_index_out_of_range_and_a_division_by_zero_are_told_as_in_eager_mode() -> None:
    table, divide = nn.Embedding(5, 3), ms.jit(lambda a, b: a // b)
    with pytest.raises(IndexError, match=r"out of range: 7, valid are -5 to 4\n  operator Gather of Cell table"):
        ms.jit(lambda i: table(i))(Tensor([1, 7], ms.int32))
    with pytest.raises(ZeroDivisionError, match=r"divided by 0\n  operator Div .*\n  what to do: .*ops.where"):
        divide(Tensor([1, 7], ms.int32), Tensor([2, 0], ms.int32))


@pytest.mark.parametrize(
    "index",
    [
        lambda i, n: i,
        lambda i, n: n,
        lambda i, n: (slice(None), n),
        lambda i, n: (i, slice(1, None)),
        lambda i, n: (i, i),
        lambda i, n: (1, i),
    ],
)
def test_elements_are_written_at_indices_that_are_computed(index: Any) -> None:
    def put(x: Any, i: Any, n: Any) -> Any:
        y = x * 1
        y[index(i, n)] = 9.0
        y[index(i, n)] += x[index(i, n)]
        return y

    x = Tensor(np.arange(9, dtype=np.float32).reshape(3, 3))
    arguments = x, Tensor([0, 2], ms.int32), Tensor(-1, ms.int32)
    np.testing.assert_array_equal(ms.jit(put)(*arguments), put(*arguments))
    expected = ms.grad(lambda x: (put(x, *arguments[1:]) * x).sum())(x)
    np.testing.assert_array_equal(ms.jit(ms.grad(lambda x: (put(x, *arguments[1:]) * x).sum()))(x), expected)


def test_a_number_is_written_where_a_computed_mask_holds() -> None:
    def clipped(x: Any) -> Any:
        y = x * 1
        y[x > 0.5] = 0.5
        return y

    x = Tensor(X)
    np.testing.assert_array_equal(ms.jit(clipped)(x), clipped(x))
    np.testing.assert_array_equal(ms.grad(ms.jit(clipped))(x), ms.grad(clipped)(x))


SCALE = 2.0
SEEN: list[Any] = []
TABLE = Tensor([1.0, 2.0, 3.0])
SETTINGS = types.SimpleNamespace(scale=2.0)


class UsesVariables(nn.Cell):
    def construct(self, x: Any) -> Any:
        return x * SCALE * SETTINGS.scale


class ChangesList(nn.Cell):
    def construct(self, x: Any) -> Any:
        SEEN.append(1)
        return x * 2


class WritesToTensor(nn.Cell):
    def construct(self, x: Any) -> Any:
        TABLE[0] = x.sum()
        return x + TABLE[0]


def test_variables_that_cells_use_count(monkeypatch: pytest.MonkeyPatch) -> None:
    outer = ms.jit(nn.SequentialCell(UsesVariables(), nn.ReLU()))
    one = Tensor([1.0])
    assert float(outer(one)[0]) == 4.0
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert float(outer(one)[0]) == 6.0
    monkeypatch.setattr(SETTINGS, "scale", 5.0)
    assert float(outer(one)[0]) == 15.0


@pytest.mark.parametrize(
    ("cell", "message"), [(ChangesList, "the variable SEEN"), (WritesToTensor, "the variable TABLE")]
)
def test_variables_that_cells_change_are_refused(cell: Any, message: str) -> None:
    with pytest.raises(UnsupportedPython, match=message):
        ms.jit(nn.SequentialCell(cell()))(Tensor([1.0]))
    assert SEEN == []
    assert float(TABLE[0]) == 1.0


class Writes(nn.Cell):
    """Writes to its argument."""

    def construct(self, h: Any) -> Any:
        h[0] = 2 * h[1]
        return h.sum()


class CallsWrites(nn.Cell):
    """Goes on with what a Cell within it wrote to."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = Writes()
        self.weight = ms.Parameter(Tensor(np.arange(4, dtype=np.float32)), name="weight")

    def construct(self, x: Any) -> Any:
        h = x * self.weight
        return self.writes(h) * h


def test_a_cell_sees_what_a_cell_within_it_wrote_to() -> None:
    net = CallsWrites()
    gradient = ms.value_and_grad(lambda x: net(x).sum(), 0, [net.weight])
    assert_same(gradient(Tensor(X)), ms.jit(gradient)(Tensor(X)))


def test_arguments_that_are_written_to_hold_it_after_the_call() -> None:
    def doubled(x: Any, y: Any) -> Any:
        x.mul_(2)
        return x + y

    given = {f: Tensor(X) for f in (doubled, ms.jit(doubled))}
    for function, x in given.items():
        for times in (2, 4):
            np.testing.assert_array_equal(function(x, Tensor(X)), X * times + X)
            np.testing.assert_array_equal(x, X * times)
    array = X.copy()
    ms.jit(doubled)(array, Tensor(X))
    np.testing.assert_array_equal(array, X * 2)


@pytest.mark.parametrize("compiled", [lambda f: f, ms.jit])
def test_gradients_flow_through_arguments_that_are_written_to(compiled: Callable[[Any], Any]) -> None:
    def squared(x: Any) -> None:
        x.mul_(x)

    function = compiled(squared)

    def used(x: Any) -> Any:
        y = x * 3
        function(y)
        return y.sum()

    np.testing.assert_allclose(ms.grad(used)(Tensor(X)), 18 * X, rtol=1e-6)


class Pair(NamedTuple):
    """Two tensors."""

    left: Any
    right: Any


def test_a_namedtuple_is_of_its_class() -> None:
    result = ms.jit(lambda x: Pair(x + 1, (x, Pair(x, 1))))(Tensor(X))
    assert type(result) is Pair
    assert type(result.right[1]) is Pair
    np.testing.assert_array_equal(result.left, X + 1)
