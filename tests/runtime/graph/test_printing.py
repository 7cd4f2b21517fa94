"""`ops.Print` and `print` in traced code: at each run, in order, with the values of the run."""

from __future__ import annotations

import builtins
import io
from typing import Any

import numpy as np
import pytest

import cellbridge.runtime as ms
from cellbridge.runtime import Parameter, Tensor, nn, ops
from cellbridge.runtime.errors import UnsupportedPython
from cellbridge.runtime.graph import trace

ONE = Tensor(np.array([1.0], np.float32))


def shown(value: float) -> str:
    return f"Tensor(shape=[1], dtype=Float32, value=[{value:g}.])\n"


def lines(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out


def test_print_at_each_run(capsys: pytest.CaptureFixture[str]) -> None:
    @ms.jit
    def f(x: Any) -> Any:
        ops.Print()("first", x)
        y = x * 2
        print("second", y, 3)
        return y

    for value in (1, 5, 1):
        f(ONE * value)
        assert lines(capsys) == f"first\n{shown(value)}second\n{shown(2 * value)}3\n"
    assert f.cache_info().traces == 1


def test_text_alone_and_structures(capsys: pytest.CaptureFixture[str]) -> None:
    weight = Parameter(ONE, name="weight")

    @ms.jit
    def f(x: Any) -> Any:
        print("only text")
        print((x, [1, weight]))
        return x

    for _ in range(2):
        f(ONE)
        text = shown(1).strip()
        assert lines(capsys) == f"only text\n({text}, [1, {text}])\n"


def test_options_and_f_strings(capsys: pytest.CaptureFixture[str]) -> None:
    file = io.StringIO()

    @ms.jit
    def f(x: Any) -> Any:
        print(x, "a", sep="|", end="!\n")
        print(f"mean {x.mean():.3f} of {x!s:>8} in {x.shape}")
        print("to a file", x, file=file)
        return x

    for value in (1, 5):
        f(ONE * value)
        assert lines(capsys) == f"[{value}.]|a!\nmean {value:.3f} of     [{value}.] in (1,)\n"
    assert file.getvalue() == "to a file [1.]\nto a file [5.]\n"


def test_print_in_branches_and_loops(capsys: pytest.CaptureFixture[str]) -> None:
    @ms.jit
    def f(x: Any) -> Any:
        print("begin")
        if x.sum() > 1:
            print("large", x)
        else:
            ops.Print()("small")
            if x.sum() < 0:
                print("negative", x)
        i = 0
        while i < x.sum():
            print(i)
            if i > 0:
                print("again", x * i)
            i += 1
        print("end")
        return x

    expected = {
        1.0: "begin\nsmall\nTensor(shape=[], dtype=Int64, value=0)\nend\n",
        -1.0: f"begin\nsmall\nnegative\n{shown(-1)}end\n",
        2.0: f"begin\nlarge\n{shown(2)}Tensor(shape=[], dtype=Int64, value=0)\n"
        f"Tensor(shape=[], dtype=Int64, value=1)\nagain\n{shown(2)}end\n",
    }
    for value, text in expected.items():
        f(ONE * value)
        assert lines(capsys) == text
    assert f.cache_info().traces == 1


def test_a_loop_that_prints_in_a_branch(capsys: pytest.CaptureFixture[str]) -> None:
    @ms.jit
    def f(x: Any) -> Any:
        if x.sum() > 0:
            for _ in range(x.astype(ms.int32).sum()):
                print("turn", x)
        return x

    for value in (2, -1):
        f(ONE * value)
        assert lines(capsys) == f"turn\n{shown(value)}" * max(value, 0)


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.weight = Parameter(ONE * 3, name="weight")

    def construct(self, x: Any) -> Any:
        y = x * self.weight
        print("y", y)
        return y


def test_training_step(capsys: pytest.CaptureFixture[str]) -> None:
    net = Net()
    optimizer = nn.SGD(net.trainable_params(), 1.0)
    forward = ms.value_and_grad(lambda x: net(x).sum(), None, optimizer.parameters)

    @ms.jit
    def step(x: Any) -> Any:
        loss, gradients = forward(x)
        optimizer(gradients)
        ops.Print()("loss", loss)
        return loss

    for value in (3, 2, 1):
        step(ONE)
        assert lines(capsys) == f"y\n{shown(value)}loss\nTensor(shape=[], dtype=Float32, value={value}.)\n"


def test_compiled_training_step(capsys: pytest.CaptureFixture[str]) -> None:
    class Loss(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.net = Net()

        def construct(self, x: Any) -> Any:
            y = self.net(x)
            if y.sum() > 2:
                print("large")
            for i in range(x.astype(ms.int64).sum()):
                print(i)
            return y.mean()

    step = ms.compile_train_step(Loss(), None, lambda parameters: nn.SGD(parameters, 1.0))
    for value in (3, 2):
        assert step(ONE) == value
        large = "large\n" if value > 2 else ""
        assert lines(capsys) == f"y\n{shown(value)}{large}Tensor(shape=[], dtype=Int64, value=0)\n"
    assert step(Tensor([1.0, 1.0])) == 1
    assert lines(capsys).count("Int64") == 2


def test_gradient_of_what_prints(capsys: pytest.CaptureFixture[str]) -> None:
    net = Net()
    compiled = ms.jit(net)
    for _ in range(2):
        assert ms.grad(lambda x: compiled(x).sum())(ONE).asnumpy() == 3
        assert lines(capsys) == f"y\n{shown(3)}"


def test_graph_mode_prints_at_each_run(capsys: pytest.CaptureFixture[str]) -> None:
    net = Net()
    ms.set_context(mode=ms.GRAPH_MODE)
    try:
        for value in (1, 2):
            net(ONE * value)
            assert lines(capsys) == f"y\n{shown(3 * value)}"
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)


def test_a_traced_program_does_not_print(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.warns(UserWarning, match="Python prints; the program doesn't"):
        traced = trace(Net(), (ONE,))
    assert lines(capsys) == "y Tensor(shape=[1], dtype=Float32, symbolic)\n"
    np.testing.assert_array_equal(traced.program(ONE), 3)
    assert lines(capsys) == ""


def test_what_was_printed_before_an_error_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    @ms.jit
    def f(x: Any) -> Any:
        print("before", x)
        return x.asnumpy()

    with pytest.raises(TypeError):
        f(ONE)
    assert lines(capsys) == "before Tensor(shape=[1], dtype=Float32, symbolic)\n"


def test_print_is_what_it_was_afterwards() -> None:
    before = builtins.print
    ms.jit(Net())(ONE)
    with pytest.raises(UnsupportedPython):
        ms.jit(lambda x: (print(x), np.random.rand()))(ONE)
    assert builtins.print is before


def test_a_backward_pass_by_hand_prints_where_it_is_traced(capsys: pytest.CaptureFixture[str]) -> None:
    class Doubled(nn.Cell):
        def construct(self, x: Any) -> Any:
            return x * 2

        def bprop(self, x: Any, out: Any, dout: Any) -> Any:
            ops.Print()(dout)
            return (dout * 2,)

    doubled = Doubled()
    assert ms.jit(ms.grad(lambda x: doubled(x).sum()))(ONE).asnumpy() == 2
    assert lines(capsys) == shown(1)
    compiled = ms.jit(doubled)
    with pytest.raises(UnsupportedPython, match="hand-written, and can't be part of a program: it prints"):
        ms.grad(lambda x: compiled(x).sum())(ONE)
