"""Tensors that `forward` keeps in attributes: refused where the next call depends on them, fine where it doesn't."""

import collections
import threading
from types import SimpleNamespace
from typing import ClassVar

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


class Store:
    """An object with a dictionary, as caches of keys and values are."""

    def __init__(self) -> None:
        self.entries: dict[str, torch.Tensor] = {}


class StoresInAnObject(Keeps):
    def forward(self, x):
        y = self.linear(x) + self.held.entries.get("last", 0)
        self.held.entries["last"] = y.detach()
        return y


@pytest.mark.parametrize(
    "module",
    [
        Recurs(), Recurs(torch.zeros(2, 3)), Appends([]), Appends(collections.deque()), Caches({}),
        SetsAttributeOfAnObject(SimpleNamespace(last=torch.zeros(2, 3))), TakesTheFirstBatch(),
        StoresInAnObject(Store()),
    ],
    ids=["None", "tensor", "list", "deque", "dict", "object", "first batch", "dict of an object"],
)  # fmt: skip
def test_state_is_refused(module):
    with pytest.raises(ConversionError) as raised:
        from_torch(nn.Sequential(nn.Identity(), module), (X,))
    message = str(raised.value)
    assert f"1, {type(module).__name__}: self.held" in message
    assert "test_unregistered_state.py:" in message
    assert 'self.register_buffer("held", ' in message


def test_the_module_is_left_as_it_was():
    module = Appends([])
    with pytest.raises(ConversionError):
        from_torch(module, (X,))
    assert module.held == []
    module(X)  # no tensor of the trace is left in it


ENTRIES: dict[str, torch.Tensor] = {}
LAST: torch.Tensor | None = None


class StoresInAGlobal(Keeps):
    def forward(self, x):
        y = self.linear(x) + ENTRIES.get("last", 0)
        ENTRIES["last"] = y.detach()
        return y


class SetsAGlobal(Keeps):
    def forward(self, x):
        global LAST
        y = self.linear(x) if LAST is None else self.linear(x) + LAST
        LAST = y.detach()
        return y


class StoresInItsClass(Keeps):
    entries: ClassVar[dict[str, torch.Tensor]] = {}

    def forward(self, x):
        y = self.linear(x) + self.entries.get("last", 0)
        self.entries["last"] = y.detach()
        return y


class SetsItsClass(Keeps):
    last = None

    def forward(self, x):
        y = self.linear(x) if self.last is None else self.linear(x) + self.last
        type(self).last = y.detach()
        return y


@pytest.mark.parametrize(
    ("module", "place"),
    [
        (StoresInAGlobal(), "the global ENTRIES"), (SetsAGlobal(), "the global LAST"),
        (StoresInItsClass(), "self.entries"), (SetsItsClass(), "self.last"),
    ],
)  # fmt: skip
@pytest.mark.every(3)
def test_state_outside_of_the_module_is_refused(module, place):
    for _ in range(2):  # the first refusal leaves all as it was
        with pytest.raises(ConversionError) as raised:
            from_torch(nn.Sequential(nn.Identity(), module), (X,))
        assert f"1, {type(module).__name__}: {place}\n    at {__file__}:" in str(raised.value)
    assert not ENTRIES
    assert LAST is None
    assert not StoresInItsClass.entries
    assert SetsItsClass.last is None


class CachesATableInAGlobal(Keeps):
    def forward(self, x):
        if x.shape[0] not in ENTRIES:
            ENTRIES[x.shape[0]] = torch.arange(3.0)
        return self.linear(x) * ENTRIES[x.shape[0]]


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
@pytest.mark.parametrize(
    "module",
    [Shows(), CachesATable({}), Drops(), CachesATableInAGlobal()],
    ids=["shown", "a table", "random", "a global table"],
)
def test_what_the_next_call_does_not_depend_on_is_no_state(module, train):
    from_torch(module, (X,), train=train)


def test_a_module_that_cannot_be_copied_is_warned_of():
    module = Shows()
    module.lock = threading.Lock()
    with pytest.warns(UserWarning, match=r"\(root\), Shows: self.held: .* can't be tested"):
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
