"""What scripts say about compiling and memory runs and changes nothing; names of the outermost module are there."""

from __future__ import annotations

from typing import Any

import pytest

import cellbridge.runtime as ms
from cellbridge.runtime import Tensor, nn, ops
from cellbridge.runtime.common import api


def test_decorators_leave_what_they_decorate() -> None:
    @ops.constexpr
    def plain(x: int) -> Any:
        return x + 1

    @ops.constexpr(check=False)
    @ms.no_inline
    def with_arguments(x: int) -> Any:
        return plain(x) + 1

    @ms.jit_class
    class Helper:
        value = 3

    class Net(nn.Cell):
        @ms.lazy_inline
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Dense(1, 1)
            self.fc.recompute(mp_comm_recompute=False)

        def construct(self, x: Any) -> Any:
            return ms.recompute(self.fc, x)

    assert with_arguments(1) == 3
    assert Helper().value == 3
    assert Net()(Tensor([[1.0]])).shape == (1, 1)
    assert ms.lazy_inline(attrs=None)(plain) is plain
    with pytest.raises(TypeError, match="jit_class"):
        ms.jit_class(plain)


def test_settings_change_nothing_but_are_checked() -> None:
    x = Tensor([1.0])
    assert ms.mutable(x) is x
    ms.set_deterministic(True)
    ms.set_recursion_limit(5000)
    with pytest.raises(TypeError, match="deterministic"):
        ms.set_deterministic(1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="recursion_limit"):
        ms.set_recursion_limit(0)


def test_nothing_is_recorded_without_gradients() -> None:
    def f(x: Any) -> Any:
        with ms._no_grad():
            y = x * x
        return (y * x).sum()

    @ms._no_grad()
    def square(x: Any) -> Any:
        return x * x

    assert ms.grad(f)(Tensor([3.0])).tolist() == [9]
    assert ms.grad(lambda x: x * square(x))(Tensor([3.0])).tolist() == [9]


def test_nothing_is_recorded_where_it_is_entered_within_itself() -> None:
    @ms._no_grad()
    def power(x: Any, n: int) -> Any:
        return x if n == 1 else power(x, n - 1) * x

    assert ms.grad(lambda x: x * power(x, 3))(Tensor([3.0])).tolist() == [27]
    assert ms.grad(ms.jit(lambda x: x * power(x, 3)))(Tensor([3.0])).tolist() == [27]

    def f(x: Any) -> Any:
        without = ms._no_grad()
        with without:
            with without:
                y = x * x
            y = y * x
        return (y * x).sum()

    assert ms.grad(f)(Tensor([3.0])).tolist() == [27]


def test_jit_is_found_where_scripts_import_it() -> None:
    assert api.jit is ms.jit


@pytest.mark.parametrize("name", ms.__all__)
def test_names_are_there(name: str) -> None:
    assert getattr(ms, name) is not None
