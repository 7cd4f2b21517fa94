"""Tensors that `forward` keeps in attributes: refused where the next call depends on them, fine where it doesn't."""

import collections
import threading
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from cellbridge.converter import from_torch
from cellbridge.runtime import ConversionError

X = torch.randn(2, 3, generator=torch.Generator().manual_seed(0))


class Keeps(nn.Module):
    def __init__(self, held=None) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.held = held


class Recurs(Keeps):
    def forward(self, x):
        y = self.linear(x)
        if self.held is not None:
            y = y + self.held
        self.held = y.detach()
        return y


class Appends(Keeps):
    def forward(self, x):
        self.held.append(self.linear(x).detach())
        return sum(self.held)


class Caches(Keeps):
    def forward(self, x):
        y = self.linear(x)
        self.held["keys"] = torch.cat([self.held["keys"], y]) if "keys" in self.held else y
        return self.held["keys"].mean(0)


class SetsAttributeOfAnObject(Keeps):
    def forward(self, x):
        y = self.linear(x) - self.held.last
        self.held.last = y.detach()
        return y


class TakesTheFirstBatch(Keeps):
    """On the same numbers, its second call would give the same."""

    def forward(self, x):
        if self.held is None:
            self.held = x.mean().detach()
        return self.linear(x) - self.held


@pytest.mark.parametrize(
    "module",
    [
        Recurs(), Recurs(torch.zeros(2, 3)), Appends([]), Appends(collections.deque()), Caches({}),
        SetsAttributeOfAnObject(SimpleNamespace(last=torch.zeros(2, 3))), TakesTheFirstBatch(),
    ],
    ids=["None", "tensor", "list", "deque", "dict", "object", "first batch"],
)  # fmt: skip
def test_state_is_refused(module):
    with pytest.raises(ConversionError) as raised:
        from_torch(nn.Sequential(nn.Identity(), module), (X,))
    message = str(raised.value)
    assert f"1, {type(module).__name__}: self.held" in message
    assert "test_kept_state.py:" in message
    assert 'self.register_buffer("held", ' in message


def test_the_module_is_left_as_it_was():
    module = Appends([])
    with pytest.raises(ConversionError):
        from_torch(module, (X,))
    assert module.held == []
    module(X)  # no tensor of the trace is left in it


class Shows(Keeps):
    def forward(self, x):
        self.held = self.linear(x)
        return self.held * 2


class CachesATable(Keeps):
    def forward(self, x):
        if x.shape[0] not in self.held:
            self.held[x.shape[0]] = torch.arange(3.0)
        return self.linear(x) * self.held[x.shape[0]]


class Drops(Keeps):
    def forward(self, x):
        self.held = nn.functional.dropout(self.linear(x), 0.5, self.training)
        return self.held


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("module", [Shows(), CachesATable({}), Drops()], ids=["shown", "a table", "random"])
def test_what_the_next_call_does_not_depend_on_is_no_state(module, train):
    from_torch(module, (X,), train=train)


def test_a_module_that_cannot_be_copied_is_warned_of():
    module = Shows()
    module.lock = threading.Lock()
    with pytest.warns(UserWarning, match=r"\(root\), Shows: self.held: .* can't be tried"):
        from_torch(module, (X,))


def test_what_is_kept_in_a_buffer_is_state_of_the_program():
    class Buffered(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("held", torch.zeros(2, 3))

        def forward(self, x):
            y = x + self.held
            self.held.copy_(y)
            return y

    assert list(from_torch(Buffered(), (X,)).updates) == ["held"]
