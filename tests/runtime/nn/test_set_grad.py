"""`set_grad`: a forward run is kept for the gradient asked for next, and never used when it no longer fits."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from cellbridge.runtime import GradOperation, Parameter, Tensor, grad, nn, ops, value_and_grad


class Counted(nn.Cell):
    """w x + y inside of a child; counts its runs."""

    def __init__(self) -> None:
        super().__init__()
        self.child = Child()
        self.count = 0

    def construct(self, x: Any, y: Any = 0.0) -> Any:
        Counted.runs += 1
        return self.child(x) + y

    runs = 0


class Child(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.w = Parameter(Tensor([2.0, 3.0]), name="w")
        self.factor = 1.0
        self.loose = [Parameter(Tensor([5.0, 5.0]), name="loose")]

    def construct(self, x: Any) -> Any:
        return self.w * x * x * self.factor + self.loose[0]


@pytest.fixture
def net() -> Counted:
    Counted.runs = 0
    return Counted().set_grad()  # type: ignore[return-value]


X = Tensor([1.0, 4.0])


def runs(action: Callable[[], Any]) -> int:
    before = Counted.runs
    action()
    return Counted.runs - before


@pytest.mark.parametrize(
    "request_of",
    [
        lambda net: grad(net)(X),
        lambda net: value_and_grad(net, 0, net.child.w)(X),
        lambda net: grad(net, None, net.trainable_params())(X),
        lambda net: GradOperation(get_all=True)(net)(X),
    ],
)
def test_the_first_request_uses_the_run_and_gets_the_same(net: Counted, request_of: Callable[[Any], Any]) -> None:
    expected = request_of(Counted())
    net(X)
    assert runs(lambda: _assert_same(request_of(net), expected)) == 0
    assert runs(lambda: _assert_same(request_of(net), expected)) == 1  # it is used once


def _assert_same(a: Any, b: Any) -> None:
    if isinstance(a, Tensor):
        assert a.tolist() == b.tolist()
    else:
        assert len(a) == len(b)
        for first, second in zip(a, b, strict=True):
            _assert_same(first, second)


def test_value_and_grad_gives_the_output_of_the_run(net: Counted) -> None:
    output = net(X)
    value, _ = value_and_grad(net)(X)
    assert value.tolist() == output.tolist() == [7.0, 53.0]


@pytest.mark.parametrize(
    "change",
    [
        lambda net: net.child.w.set_data(Tensor([10.0, 10.0])),
        lambda net: ops.assign(net.child.w, Tensor([10.0, 10.0])),
        lambda net: setattr(net.child, "w", Tensor([10.0, 10.0])),
        lambda net: setattr(net.child, "w", Parameter(Tensor([10.0, 10.0]))),
        lambda net: net.child.loose[0].set_data(Tensor([1.0, 1.0])),
        lambda net: setattr(net.child, "factor", 3.0),
        lambda net: setattr(net.child.w, "requires_grad", False),
        lambda net: net.set_train(),
        lambda net: net.child.register_backward_hook(lambda cell, gi, go: gi[0] * 2.0),
        lambda net: net.child.register_forward_hook(lambda cell, inputs, output: output * 2.0),
        lambda net: net.to_float("float32"),
        lambda net: setattr(net, "child", Child()),
        lambda net: net.set_grad(),
    ],
)
def test_a_run_that_went_stale_is_not_used(net: Counted, change: Callable[[Any], Any]) -> None:
    net(X)
    change(net)
    gradients: list[Any] = []
    assert runs(lambda: gradients.append(grad(net, 0, net.child.w)(X))) == 1
    fresh = Counted()
    change(fresh)
    _assert_same(gradients[0], grad(fresh, 0, fresh.child.w)(X))


def test_other_arguments(net: Counted) -> None:
    x, y = Tensor([1.0, 4.0]), Tensor([1.0, 1.0])
    net(x)
    assert runs(lambda: grad(net)(Tensor(x.asnumpy()))) == 1
    net(x)
    assert runs(lambda: grad(net)(x, y)) == 1
    net(x, y)
    assert runs(lambda: grad(net, (0, 1))(x, y)) == 0
    net(x, y=y)
    assert runs(lambda: grad(net)(x)) == 1
    net(x, y=y)
    assert runs(lambda: grad(net)(x, y=y)) == 0
    net(x)
    assert runs(lambda: grad(lambda v: net(v))(x)) == 1
    net(x)
    x[0] = 9.0
    assert runs(lambda: _assert_same(grad(net)(x), Tensor([36.0, 24.0]))) == 1


def test_a_list_that_was_changed() -> None:
    class Sum(nn.Cell):
        def construct(self, xs: Any) -> Any:
            return xs[0] * self.w if len(xs) == 1 else xs[0] * xs[1] * self.w

    net = Sum()
    net.w = Parameter(Tensor([1.0]))
    net.set_grad()
    xs = [Tensor([2.0])]
    net(xs)
    xs.append(Tensor([5.0]))
    assert grad(net, None, net.w)(xs).tolist() == [10.0]


def test_a_weight_that_the_run_did_not_track(net: Counted) -> None:
    net(X)
    assert grad(net, None, net.child.loose)(X)[0].tolist() == [1.0, 1.0]


def test_statistics_move_once() -> None:
    x = Tensor([[1.0], [5.0]])
    for kept, mean in ((False, 3 * 0.1 + 0.9 * 3 * 0.1), (True, 3 * 0.1)):
        norm = nn.BatchNorm1d(1, momentum=0.9).set_train()
        norm.set_grad(kept)
        norm(x)
        grad(norm)(x)
        assert norm.moving_mean.asnumpy() == pytest.approx([mean])


def test_a_failing_run_forgets_the_one_before() -> None:
    class Fussy(nn.Cell):
        def construct(self, x: Any) -> Any:
            if x.shape != (2,):
                raise ValueError("two")
            return x * x

    net = Fussy().set_grad()
    net(X)
    with pytest.raises(ValueError, match="two"):
        net(Tensor([1.0]))
    assert net._forward_run is None
    assert grad(net)(X).tolist() == [2.0, 8.0]


def test_runs_that_are_not_used_let_go_of_what_they_held(net: Counted) -> None:
    outputs = [net(Tensor([1.0, float(i)])) for i in range(3)]
    tapes = [output._tape for output in outputs]
    assert [bool(t.entries) for t in tapes] == [False, False, True]
    net.set_grad(False)
    assert not tapes[-1].entries
    held = weakref.ref(outputs.pop())
    del tapes
    gc.collect()
    assert held() is None


def test_a_copy_keeps_no_run(net: Counted) -> None:
    net(X)
    twin = copy.deepcopy(net)
    assert twin._forward_run is None
    assert net._forward_run is not None
    assert runs(lambda: grad(twin)(X)) == 1
    assert runs(lambda: grad(net)(X)) == 0


def test_set_grad_reaches_all_and_returns_the_cell() -> None:
    for cell in (Counted(), nn.SequentialCell([Counted()]), nn.CellList([Counted()])):
        assert cell.set_grad() is cell
        assert all(sub.requires_grad for _, sub in cell.cells_and_names())
        assert cell.set_grad(False) is cell
        assert not any(sub.requires_grad for _, sub in cell.cells_and_names())
