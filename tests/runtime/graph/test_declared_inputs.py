"""Inputs that are declared with open sizes: `Tensor(shape=[None, ...])`, `Cell.set_inputs`, `jit(input_signature=)`."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import cellbridge.runtime as ms
from cellbridge.runtime import Parameter, Tensor, nn, ops

F = ms.float32


@pytest.fixture
def graph_mode() -> Iterator[None]:
    ms.set_context(mode=ms.GRAPH_MODE)
    yield
    ms.set_context(mode=ms.PYNATIVE_MODE)


def open_tensor(*sizes: int | None, dtype: Any = F) -> Tensor:
    return Tensor(shape=list(sizes), dtype=dtype)


def numbers(*shape: int) -> Tensor:
    return Tensor(np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32))


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Dense(4, 3)

    def construct(self, x: Any, y: Any) -> Any:
        return (self.fc(x) - y) ** 2


def info(net: nn.Cell) -> Any:
    return net._compiled[None].info


# ---- placeholders ----


def test_a_placeholder_has_dtype_and_shape_and_no_elements() -> None:
    x = Tensor(shape=[None, 3], dtype=ms.float16)
    assert (x.shape, x.dtype, x.ndim) == ((-1, 3), ms.float16, 2)
    assert repr(x) == "Tensor(shape=[None, 3], dtype=Float16)" == str(x)
    assert Tensor(shape=None, dtype=F).shape == (-2,)
    assert copy.deepcopy(x).shape == (-1, 3)


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x.asnumpy(),
        lambda x: x + 1,
        lambda x: ops.relu(x),
        lambda x: np.exp(x),
        lambda x: x[0],
        lambda x: x.sum(),
        lambda x: float(x),
        lambda x: bool(x),
        lambda x: x.size,
        lambda x: Tensor(x),
        lambda x: Parameter(x),
        lambda x: x.copy(),
        lambda x: x.astype(ms.float16),
        lambda x: nn.Dense(3, 2)(x),
    ],
)
def test_what_needs_elements_says_that_there_are_none(use: Any) -> None:
    with pytest.raises(ValueError, match=r"needs the elements .* Tensor\(shape=\[None, 3\].* a\s+placeholder"):
        use(open_tensor(None, 3))


@pytest.mark.parametrize(
    ("shape", "dtype", "error", "message"),
    [
        ([None, 3], None, ValueError, "needs a 'dtype'"),
        ([None, -3], F, ValueError, "must hold sizes"),
        ([None, 2.5], F, TypeError, "must be int"),
        ("ab", F, TypeError, "must be int"),
    ],
)
def test_wrong_placeholders_are_refused(shape: Any, dtype: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Tensor(shape=shape, dtype=dtype)


# ---- set_inputs ----


def test_one_program_traced_at_once_serves_all_sizes(graph_mode: None) -> None:
    net = Net()
    net.set_inputs(open_tensor(None, 4), open_tensor(3))
    assert info(net).traces == 1
    for size in (5, 3, 8):
        x, y = numbers(size, 4), numbers(3)
        expected = (x.asnumpy() @ net.fc.weight.asnumpy().T + net.fc.bias.asnumpy() - y.asnumpy()) ** 2
        np.testing.assert_allclose(net(x, y).asnumpy(), expected, rtol=1e-4, atol=1e-5)
    assert (info(net).traces, info(net).runs) == (1, 3)
    assert net(numbers(1, 4), numbers(3)).shape == (1, 3)  # which may broadcast: a program of its own
    assert info(net).traces == 2


def test_open_sizes_that_must_be_equal_are_those_of_one_axis(graph_mode: None) -> None:
    net = Net()
    net.set_inputs(open_tensor(None, 4), open_tensor(None, 3))
    for size in (5, 2):
        assert net(numbers(size, 4), numbers(size, 3)).shape == (size, 3)
    assert info(net).traces == 2  # the first, with a symbol for each size, was refused
    assert net(numbers(6, 4), numbers(1, 3)).shape == (6, 3)


def test_set_inputs_by_name_and_of_any_rank(graph_mode: None) -> None:
    class Scaled(nn.Cell):
        def construct(self, x: Any, y: Any) -> Any:
            return x.sum(-1) * y

    net, dense = Scaled(), Net()
    net.set_inputs(x=Tensor(shape=None, dtype=F))
    dense.set_inputs(x=Tensor(shape=None, dtype=F))  # whose last size can't be open
    for shape in ((5, 4), (2, 6, 4), (3, 7, 5), (8, 3)):
        assert net(numbers(*shape), Tensor(2.0)).shape == shape[:-1]
        assert dense(numbers(*shape[:-1], 4), numbers(3)).shape == (*shape[:-1], 3)
    assert info(net).traces == 2


def test_set_train_after_set_inputs(graph_mode: None) -> None:
    class Dropped(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(2)

        def construct(self, x: Any) -> Any:
            return self.norm(x)

    net = Dropped()
    net.set_inputs(open_tensor(None, 2))
    net.set_train()
    for size in (4, 5, 6):
        np.testing.assert_allclose(net(numbers(size, 2)).asnumpy().mean(0), 0, atol=1e-6)
    assert info(net).traces == 2


def test_python_that_decides_on_an_open_size_is_compiled_by_sizes(graph_mode: None) -> None:
    class Decides(nn.Cell):
        def construct(self, x: Any) -> Any:
            return x * 2 if x.shape[0] > 3 else x

    net = Decides()
    net.set_inputs(open_tensor(None))
    assert net(Tensor([1.0, 2.0])).asnumpy().tolist() == [1.0, 2.0]
    assert net(Tensor([1.0] * 4)).asnumpy().tolist() == [2.0] * 4


def test_nested_inputs_and_inputs_that_are_no_tensors(graph_mode: None) -> None:
    class Sums(nn.Cell):
        def construct(self, xs: Any, factor: Any, last: Any) -> Any:
            return (xs[0].sum() + xs[1]["a"].sum() + last.sum()) * factor

    net = Sums()
    w = Parameter(np.ones(2, np.float32), name="w")
    net.set_inputs((open_tensor(None), {"a": open_tensor(None, 2)}), 3, w)
    for size in (2, 5):
        x = Tensor(np.ones(size, np.float32)), {"a": Tensor(np.ones((size + 1, 2), np.float32))}
        assert float(net(x, 3, w).asnumpy()) == (size + 2 * (size + 1) + 2) * 3
    assert info(net).traces == 1


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (Tensor(np.ones((2, 4), np.float16)), TypeError, "the input x must have dtype float32, but got float16"),
        (numbers(2, 5), ValueError, r"the input x must have shape \[None, 4\], but got \[2, 5\]"),
        (numbers(4), ValueError, r"shape \[None, 4\], but got \[4\]"),
        (2.0, TypeError, "the input x must be a Tensor, but got float"),
    ],
)
def test_other_inputs_than_declared_are_refused(graph_mode: None, x: Any, error: type[Exception], message: str) -> None:
    net = Net()
    net.set_inputs(open_tensor(None, 4), open_tensor(3))
    with pytest.raises(error, match=rf"For 'set_inputs', .*{message}"):
        net(x, numbers(3))


def test_wrong_declarations_are_refused() -> None:
    net = Net()
    with pytest.raises(TypeError, match="For 'set_inputs', got 3 inputs"):
        net.set_inputs(*[open_tensor(None)] * 3)
    with pytest.raises(ValueError, match=r"inputs must be among \['x', 'y'\], but got 'z'"):
        net.set_inputs(z=open_tensor(None))


def test_in_eager_mode_any_size_runs_as_before() -> None:
    net = Net()
    net.set_inputs(open_tensor(None, 4), open_tensor(None, 3))
    assert [x.shape for x in net.get_inputs()] == [(-1, 4), (-1, 3)]
    assert net(numbers(2, 4), numbers(2, 3)).shape == (2, 3)
    assert copy.deepcopy(net)(numbers(2, 4), numbers(2, 3)).shape == (2, 3)


# ---- jit ----


def test_jit_of_a_function_with_an_input_signature() -> None:
    @ms.jit(input_signature=(open_tensor(None, 3), open_tensor(3)))
    def f(x: Any, y: Any) -> Any:
        return x * y

    for size in (4, 2, 9):
        assert f(numbers(size, 3), numbers(3)).shape == (size, 3)
    assert f.cache_info().traces == 1
    with pytest.raises(ValueError, match=r"For 'jit\(input_signature=\)', the input x must have shape"):
        f(numbers(4, 2), numbers(3))
    with pytest.raises(TypeError, match="got 1 inputs"):
        ms.jit(f, input_signature=open_tensor(None))


def test_jit_of_a_method_and_of_a_cell_that_declares_its_inputs() -> None:
    class Twice(nn.Cell):
        @ms.jit(input_signature=open_tensor(None, 2))
        def construct(self, x: Any) -> Any:
            return x * 2

    class Thrice(nn.Cell):
        @ms.jit
        def construct(self, x: Any) -> Any:
            return x * 3

    twice, thrice, jitted = Twice(), Thrice(), ms.jit(Net(), input_signature={"x": open_tensor(None, 4)})
    thrice.set_inputs(open_tensor(None, 2))
    for size in (4, 2, 9):
        assert twice(numbers(size, 2)).shape == thrice(numbers(size, 2)).shape == (size, 2)
        assert jitted(numbers(size, 4), numbers(3)).shape == (size, 3)
    assert twice.construct.cache_info().traces == thrice.construct.cache_info().traces == 1
    assert jitted.cache_info().traces == 1
    for net in (twice, thrice):
        with pytest.raises(TypeError, match="dtype float32, but got int32"):
            net(Tensor(np.ones((2, 2), np.int32)))


def test_gradients_of_a_cell_with_open_inputs(graph_mode: None) -> None:
    net = Net()
    net.set_inputs(open_tensor(None, 4), open_tensor(3))
    for size in (3, 5):
        gradient = ms.grad(net)(numbers(size, 4), numbers(3))
        assert gradient.shape == (size, 4)
