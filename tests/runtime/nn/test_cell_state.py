"""Buffers of Cells, and state dicts."""

from __future__ import annotations

import numpy as np
import pytest

import cellbridge.runtime as ms
from cellbridge.runtime import Tensor, UnsupportedPython, nn


class Mean(nn.Cell):
    def __init__(self, persistent=True) -> None:
        super().__init__()
        self.fc = nn.Dense(2, 2)
        self.register_buffer("mean", Tensor(np.zeros(2, np.float32)), persistent)

    def construct(self, x):
        self.mean = self.mean * 0.5 + x.mean(0) * 0.5
        return self.fc(x - self.mean)


def test_buffers_are_attributes_that_no_gradient_trains():
    net = nn.SequentialCell(Mean(), Mean(persistent=False))
    assert [name for name, _ in net.named_buffers()] == ["0.mean", "1.mean"]
    assert [name for name, _ in net.parameters_and_names()] == ["0.fc.weight", "0.fc.bias", "1.fc.weight", "1.fc.bias"]
    net(Tensor(np.ones((3, 2), np.float32)))
    first, _ = net.buffers()
    np.testing.assert_array_equal(first.asnumpy(), [0.5, 0.5])
    assert list(net.buffers(recurse=False)) == []


def test_a_buffer_that_construct_sets_is_refused_where_it_is_traced():
    net = Mean()
    with pytest.raises(UnsupportedPython, match=r"(?s)buffer 'mean' of Mean was set .* keep .* in a Parameter"):
        ms.jit(net)(Tensor(np.ones((3, 2), np.float32)))
    np.testing.assert_array_equal(net.mean.asnumpy(), [0, 0])


def test_a_buffer_is_read_anew_once_it_is_changed_outside_of_what_is_traced():
    class Shifted(nn.Cell):
        def __init__(self):
            super().__init__()
            self.register_buffer("shift", Tensor([1.0]))

        def construct(self, x):
            return x + self.shift

    net = Shifted()
    jitted = ms.jit(net)
    assert jitted(Tensor([1.0])).asnumpy() == 2
    net.shift = Tensor([5.0])
    assert jitted(Tensor([1.0])).asnumpy() == 6
    net.load_state_dict({"shift": Tensor([7.0])})
    assert jitted(Tensor([1.0])).asnumpy() == 8


def test_state_dicts_are_loaded():
    net, target = Mean(), Mean()
    net(Tensor(np.ones((3, 2), np.float32)))
    state = net.state_dict()
    assert list(state) == ["mean", "fc.weight", "fc.bias"]
    assert list(net.state_dict(prefix="a.")) == ["a.mean", "a.fc.weight", "a.fc.bias"]
    assert target.load_state_dict(state) == ([], [])
    for name, tensor in target.state_dict().items():
        np.testing.assert_array_equal(tensor.asnumpy(), state[name].asnumpy())
    assert Mean(persistent=False).load_state_dict(state, strict=False) == ([], ["mean"])


def test_a_state_dict_that_does_not_fit_changes_nothing():
    net = Mean()
    before = net.fc.weight.asnumpy().copy()
    state = {"fc.weight": Tensor(np.ones((2, 2), np.float32)), "fc.bias": Tensor(np.ones(3, np.float32)), "x": net.mean}
    with pytest.raises(
        RuntimeError, match=r"missing: \['mean'\]; unknown: \['x'\]; fc.bias: needed shape \(2,\), but got \(3,\)"
    ):
        net.load_state_dict(state)
    np.testing.assert_array_equal(net.fc.weight.asnumpy(), before)


@pytest.mark.parametrize(
    ("name", "tensor", "error"),
    [("", None, KeyError), ("a.b", None, KeyError), ("fc", None, KeyError), ("b", 3, TypeError), (3, None, TypeError)],
)
def test_wrong_buffers_are_refused(name, tensor, error):
    with pytest.raises(error, match=r"register_buffer|name"):
        Mean().register_buffer(name, tensor)


def test_inputs_are_noted():
    net = Mean()
    assert net.get_inputs() is None
    net.set_inputs(Tensor(np.ones((3, 2), np.float32)))
    assert len(net.get_inputs()) == 1
    with pytest.raises(ValueError, match="by position or by keyword"):
        net.set_inputs(1, x=2)


@pytest.mark.parametrize("name", ["dataset", "communication", "mint", "numpy"])
def test_modules_that_are_not_there_say_what_is(name):
    with pytest.raises(AttributeError, match=f"has no '{name}': .* This package has MindSpore 2.10"):
        getattr(ms, name)
    assert not hasattr(ms, name)
