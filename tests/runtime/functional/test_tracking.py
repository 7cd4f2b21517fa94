"""Gradients cut and shown, Parameters assigned, printing; and losses whose masks keep every shape fixed."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import cellbridge.runtime as ms
from cellbridge.runtime import Parameter, Tensor, grad, nn, ops, value_and_grad
from tests.runtime.against_torch import assert_as_torch, normal

A, B = Tensor([3.0, -8.0]), Tensor([3.0, 4.0])


# ---- cutting ----


def test_stop_gradient() -> None:
    assert_as_torch(lambda x: x * ops.stop_gradient(x), lambda x: x * x.detach(), normal(3))
    assert_as_torch(lambda x: x * ops.StopGradient()(x * x), lambda x: x * (x * x).detach(), normal(3))


def test_stop_gradient_of_tuples_and_lists() -> None:
    def f(x: Any, y: Any) -> Any:
        (a, (b,)), number = ops.stop_gradient([(x, (y,)), 3])
        assert number == 3
        return (x * a + y * b).sum()

    gx, gy = grad(f, (0, 1))(A, B)
    assert gx.tolist() == A.tolist()
    assert gy.tolist() == B.tolist()
    assert isinstance(ops.stop_gradient((A, B)), tuple)
    with pytest.raises(TypeError, match="value"):
        ops.stop_gradient()


def test_stop_gradient_of_dicts_and_namedtuples() -> None:
    Pair = namedtuple("Pair", "a b")

    def f(x: Any, y: Any) -> Any:
        cut = ops.stop_gradient({"pair": Pair(x, y)})
        assert type(cut["pair"]) is Pair
        return (x * cut["pair"].a + y * cut["pair"].b).sum()

    gx, gy = grad(f, (0, 1))(A, B)
    assert gx.tolist() == A.tolist()
    assert gy.tolist() == B.tolist()


def test_identity() -> None:
    assert grad(lambda x: ops.Identity()(x) * ops.identity(x))(A).tolist() == (2 * A).tolist()
    assert ops.depend(A, B) is A
    with pytest.raises(TypeError, match="identity"):
        ops.identity("x")


# ---- hooks ----


@pytest.mark.parametrize(
    ("returned", "factor"),
    [
        (lambda g: None, 1.0),
        (lambda g: g * 10.0, 10.0),
        (lambda g: (g * 10.0,), 10.0),
        (lambda g: [g * 0.0], 0.0),
    ],
)
def test_hook_backward(returned: Callable[[Any], Any], factor: float) -> None:
    hook_inputs: list[Any] = []

    def show(gradients: Any) -> Any:
        hook_inputs.append(gradients)
        return returned(gradients[0])

    hook = ops.HookBackward(show)

    def f(a: Any, b: Any) -> Any:
        return hook(a * b) * b

    assert f(A, B).tolist() == (A * B * B).tolist()
    assert hook_inputs == []
    of_a, of_b = grad(f, (0, 1))(A, B)
    ((gradient,),) = hook_inputs
    assert gradient.tolist() == B.tolist()
    assert of_a.tolist() == (B * B * factor).tolist()
    assert of_b.tolist() == (A * B * factor + A * B).tolist()


def test_hook_backward_on_several_tensors() -> None:
    hook_inputs: list[Any] = []

    def show(gradients: Any) -> Any:
        hook_inputs.append([g.tolist() for g in gradients])
        return None, gradients[1] * 2.0

    hook = ops.HookBackward(show, "cell")

    def f(a: Any, b: Any) -> Any:
        x, _ = hook(a, b)
        return x * 3.0

    with pytest.raises(TypeError, match="1 gradients for 2 inputs"):
        grad(lambda a, b: sum(ops.HookBackward(lambda gradients: gradients[0])(a, b)), (0, 1))(A, B)
    of_a, of_b = grad(f, (0, 1))(A, B)
    assert hook_inputs == [[[3.0, 3.0], [0.0, 0.0]]]  # zeros where no gradient arrives
    assert (of_a.tolist(), of_b.tolist()) == ([3.0, 3.0], [0.0, 0.0])
    assert "cell" in repr(hook)


def test_insert_gradient_of() -> None:
    clip = ops.InsertGradientOf(lambda g: ops.clamp(g, -1.0, 1.0))
    assert grad(lambda x: clip(x) * 5.0)(A).tolist() == [1.0, 1.0]
    with pytest.raises(TypeError, match="callable"):
        ops.InsertGradientOf(3)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: ops.HookBackward(3), ("HookBackward", "callable", "int")),
        (lambda: ops.HookBackward(print)(3), ("HookBackward", "Tensor", "int")),
        (lambda: ops.HookBackward(print)((A, B)), ("HookBackward", "Tensor", "tuple")),
        (lambda: ops.HookBackward(print)(), ("HookBackward", "Tensor")),
        (lambda: grad(lambda x: ops.HookBackward(lambda g: 3)(x))(A), ("Tensor", "int")),
        (lambda: grad(lambda x: ops.HookBackward(lambda g: (g[0], g[0]))(x))(A), ("2 gradients", "1 input")),
    ],
)
def test_errors_of_hooks(wrong: Callable[[], Any], words: tuple[str, ...]) -> None:
    with pytest.raises(TypeError) as raised:
        wrong()
    assert [word for word in words if word not in str(raised.value)] == []


# ---- Parameters ----


def test_assigning_keeps_the_dtype_and_returns_the_value() -> None:
    p = Parameter(Tensor([1.0, 2.0], ms.float16), name="p")
    assert ops.assign(p, Tensor([3, 4])).tolist() == p.tolist() == [3.0, 4.0]
    assert ops.assign_add(p, Tensor([0.5, 0.5])).tolist() == p.tolist() == [3.5, 4.5]
    assert ops.assign_sub(p, Tensor([0.5, 0.5], ms.float64)).tolist() == p.tolist() == [3.0, 4.0]
    assert p.dtype == np.float16
    assert ops.Assign()(p, B).tolist() == [3.0, 4.0]
    assert ops.AssignAdd()(p, B).tolist() == [6.0, 8.0]
    assert ops.AssignSub()(p, B).tolist() == [3.0, 4.0]
    number = Parameter(1.0, name="n")
    assert ops.assign_add(number, 2.0).asnumpy() == 3.0


def test_what_follows_an_assignment_depends_on_the_value() -> None:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.p = Parameter(Tensor([1.0, 1.0]), name="p")

        def construct(self, x: Tensor) -> Tensor:
            before = self.p * x
            ops.assign(self.p, x * x)
            ops.assign_add(self.p, x)
            return before + self.p * 3.0

    net = Net()
    of_x, of_p = grad(net, 0, net.trainable_params())(A)
    assert of_x.tolist() == (1.0 + 3.0 * (2.0 * A + 1.0)).tolist()
    assert of_p[0].tolist() == A.tolist()
    assert net.p.tolist() == (A * A + A).tolist()
    (second_gradient,) = grad(net, None, net.trainable_params())(A)  # nothing of the first run is left
    assert second_gradient.tolist() == A.tolist()


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (lambda p: ops.assign(p, Tensor([1.0])), ValueError, ("assign", "value", "(2,)", "(1,)")),
        (lambda p: ops.assign(p, 1.0), ValueError, ("assign", "(2,)", "()")),
        (lambda p: ops.assign_add(p, Tensor([[1, 2]])), ValueError, ("assign_add", "(2,)", "(1, 2)")),
        (lambda p: ops.assign(p, Tensor([1.5, 2.0])), TypeError, ("assign", "Int32", "Float32")),
        (lambda p: ops.assign(p, "x"), TypeError, ("assign", "value", "str")),
        (lambda p: ops.assign([1, 2], p), TypeError, ("assign", "variable", "list")),
    ],
)
def test_errors_of_assigning(wrong: Callable[[Parameter], Any], error: type[Exception], words: tuple[str, ...]) -> None:
    with pytest.raises(error) as raised:
        wrong(Parameter(Tensor([1, 2], ms.int32), name="p"))
    assert [word for word in words if word not in str(raised.value)] == []


# ---- printing ----


def test_print(capsys: pytest.CaptureFixture[str]) -> None:
    p = Parameter(Tensor([1.0]), name="p")
    assert ops.Print()("text", Tensor([1, 2]), p, (Tensor([1]), "a", 2), [p], 3.5, True) is None
    assert capsys.readouterr().out.splitlines() == [
        "text",
        "Tensor(shape=[2], dtype=Int64, value=[1, 2])",
        "Tensor(shape=[1], dtype=Float32, value=[1.])",
        "(Tensor(shape=[1], dtype=Int64, value=[1]), 'a', 2)",
        "[Tensor(shape=[1], dtype=Float32, value=[1.])]",
        "3.5",
        "True",
    ]

    def f(x: Any) -> Any:
        ops.print_(x)
        return x * x

    assert value_and_grad(f)(A)[1].tolist() == (2 * A).tolist()


# ---- losses of fixed shapes ----


def test_contrastive_pairs_of_rows() -> None:
    def loss(e: Any) -> Any:
        difference = e[0::2] - ops.stop_gradient(e[1::2])
        return ops.CumSum()(difference * difference, 1) * 4.0 / e.shape[0]

    def loss_in_torch(e: torch.Tensor) -> torch.Tensor:
        return (e[0::2] - e[1::2].detach()).square().cumsum(1) * 4.0 / e.shape[0]

    assert_as_torch(loss, loss_in_torch, normal(6, 3))


def test_the_hardest_positives_by_a_threshold() -> None:
    labels = np.array([1, 0, 2, 1, 0, 2, 1, 1])

    def loss(scores: Any) -> Any:
        mask = Tensor(labels) > 0
        k = max(int(0.7 * int(mask.sum())), 1)
        picked = ops.gather_elements(ops.log_softmax(scores, -1), 1, Tensor(labels).expand_dims(1)).squeeze(1)
        each = -picked * mask
        threshold = ops.TopK(sorted=True)(each, k)[0][k - 1]
        kept = each >= ops.stop_gradient(threshold)
        return (each * kept).sum() / kept.sum()

    def loss_in_torch(scores: torch.Tensor) -> torch.Tensor:
        each = torch.nn.functional.cross_entropy(scores, torch.from_numpy(labels), reduction="none")
        each = each[torch.from_numpy(labels > 0)]
        return each.topk(max(int(0.7 * len(each)), 1))[0].mean()

    assert_as_torch(loss, loss_in_torch, normal(8, 3))


def test_selected_rows_and_the_same_by_a_mask() -> None:
    boxes, overlap = normal(5, 4), np.array([0.1, 0.4, 0.2, 0.9, 0.3])

    def selected(x: Any) -> Any:
        return ops.masked_select(x, (Tensor(overlap) > 0.3).expand_dims(-1)).reshape(-1, 4)

    def masked(x: Any) -> Any:
        return x * (Tensor(overlap) > 0.3).expand_dims(-1)

    keep = torch.from_numpy(overlap > 0.3)
    assert_as_torch(selected, lambda x: x[keep], boxes)
    assert_as_torch(masked, lambda x: x * keep[:, None], boxes)


def test_rows_padded_to_buckets() -> None:
    weight = normal(2, 3, seed=1)

    def mean(row: Any) -> Any:
        length = next(bucket for bucket in (3, 5, 8) if bucket >= row.shape[0])
        padded = ops.pad(row, (0, 0, 0, length - row.shape[0]))
        mask = (ops.arange(length) < row.shape[0]).expand_dims(-1)
        return (ops.dense(padded, Tensor(weight)) * mask).sum(0) / mask.sum()

    for count in (2, 3, 7):
        assert_as_torch(mean, lambda row: (row @ torch.from_numpy(weight).T).mean(0), normal(count, 3))
