"""Methods that write into the tensor: which value it has afterwards, and what gradients flow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cellbridge.runtime as ms
from cellbridge.runtime import Parameter, Tensor, grad


def test_values_that_are_written() -> None:
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    assert x.copy_(Tensor([5, 6])) is x
    assert x.tolist() == [[5, 6], [5, 6]]
    assert x.dtype == ms.float32
    assert x.fill_(2.5).tolist() == [[2.5, 2.5], [2.5, 2.5]]
    assert x.zero_().tolist() == [[0, 0], [0, 0]]


def test_draws_that_are_written() -> None:
    ms.set_seed(1)
    x = Tensor(np.zeros(4000, np.float32))
    assert abs(float(x.normal_(3.0, 2.0).mean()) - 3) < 0.2
    assert abs(float(x.std()) - 2) < 0.2
    sampled = x.uniform_(2.0, 3.0).asnumpy()
    assert sampled.min() >= 2
    assert sampled.max() <= 3
    assert set(x.random_(2, 5).tolist()) == {2, 3, 4}
    assert set(x.random_(2).tolist()) == {0, 1}
    with pytest.raises(NotImplementedError, match="set_seed"):
        x.normal_(generator=object())


def test_gradients_flow_through_what_is_kept() -> None:
    def f(x: Tensor) -> Any:
        y = x * 2
        y.mul_(x)  # 2 x^2
        return y.sum()

    np.testing.assert_allclose(grad(f)(Tensor([1.0, 3.0])).asnumpy(), [4, 12])


def test_a_parameter_keeps_its_result() -> None:
    w = Parameter(Tensor([1.0, 2.0]), name="w")
    w.add_(1)
    assert w.tolist() == [2, 3]
    assert isinstance(w, Parameter)


def test_the_shape_stays() -> None:
    with pytest.raises(ValueError, match=r"add_.*\(2,\).*\(3, 2\)"):
        Tensor([1.0, 2.0]).add_(Tensor(np.ones((3, 2), np.float32)))


def test_places_of_elements() -> None:
    x = Tensor(np.zeros((2, 3, 4), np.float32))
    assert x.stride() == [12, 4, 1]
    assert x.stride(1) == 4
    assert x.strides == (48, 16, 4)
    assert x.contiguous() is x
    assert x.is_contiguous()
