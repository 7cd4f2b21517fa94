"""`watch`: a torch network seen at every module boundary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.converter.capture.cell_hooks import CurrentCell, Visitor, input_slots, watch
from cellbridge.runtime.ir.types import CellCall

X = torch.tensor([1.0, -2.0])


class Log(Visitor):
    """A visitor that writes down what it is told; outputs are multiplied by `factor`."""

    def __init__(self, factor: float = 1.0) -> None:
        self.lines: list[str] = []
        self.calls: list[CellCall] = []
        self.factor = factor

    def enter(self, number: int, call: CellCall, module: nn.Module, slots: Sequence[str]) -> None:
        if number == 0:
            self.lines, self.calls = [], []
        self.calls.append(call)
        self.lines.append(f"enter {number} {call}")

    def input(self, number: int, position: int, slot: str, tensor: Tensor) -> Tensor:
        self.lines.append(f"input {number}.{position} {slot}")
        return tensor.clone()

    def returns(self, number: int, result: Any, slots: Sequence[str]) -> None:
        self.lines.append(f"returns {number} {' '.join(slots)}")

    def output(self, number: int, position: int, slot: str, tensor: Tensor) -> Tensor:
        self.lines.append(f"output {number}.{position} {slot}")
        return tensor * self.factor

    def leave(self, number: int, module: nn.Module) -> None:
        self.lines.append(f"leave {number}")


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.act = nn.ReLU()

    def forward(self, x: Tensor) -> dict[str, Any]:
        return {"y": self.act(x), "n": 3, "z": (self.act(-x), None)}


def test_calls_are_told_in_order() -> None:
    log = Log()
    model = Model()
    with watch(model, log):
        for _ in range(2):  # each run is told from its start
            model(X)
    assert log.lines == [
        "enter 0 (root)", "input 0.0 x",
        "enter 1 act", "input 1.0 input", "returns 1 result", "output 1.0 result", "leave 1",
        "enter 2 act@1", "input 2.0 input", "returns 2 result", "output 2.0 result", "leave 2",
        "returns 0 ['y'] ['z'][0]", "output 0.0 ['y']", "output 0.1 ['z'][0]", "leave 0",
    ]  # fmt: skip
    assert log.calls[1:] == [CellCall("act", "ReLU", 0, 0), CellCall("act", "ReLU", 1, 0)]


def test_what_the_visitor_returns_goes_on() -> None:
    model = Model()
    with watch(model, Log(factor=10)):
        assert model(X)["y"].tolist() == [100, 0], "once for `act`, once for the root"
    assert model(X)["y"].tolist() == [1, 0], "nothing is left behind"


def test_hooks_are_removed_after_an_error() -> None:
    model = nn.Sequential(nn.Linear(5, 5))
    with pytest.raises(RuntimeError), watch(model, Log()):
        model(X)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_a_run_after_one_that_failed_starts_anew() -> None:
    model, log = nn.Sequential(nn.Linear(2, 2)), Log()
    with watch(model, log):
        with pytest.raises(RuntimeError):
            model(torch.zeros(3))
        model(X)
    assert [str(c) for c in log.calls] == ["(root)", "0"]
    assert log.calls[1].parent == 0


def test_a_change_in_place_reaches_the_caller() -> None:
    x = X.clone()
    model = nn.Sequential(nn.ReLU(inplace=True))
    with watch(model, Log()):
        model(x)
    assert x.tolist() == [1, 0]


def test_calls_within_function_transforms_belong_to_the_cell_around_them() -> None:
    class Ensemble(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.each = nn.ModuleList(nn.Linear(2, 3) for _ in range(3))
            self.head = nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Tensor:
            weights = {k: torch.stack([m.get_parameter(k) for m in self.each]) for k in ("weight", "bias")}
            many = torch.vmap(lambda w: torch.func.functional_call(self.each[0], w, (x,)))(weights)
            return torch.vmap(self.head)(self.head(many))

    model, log = Ensemble(), Log()
    with watch(model, log):
        model(torch.randn(4, 2))
    assert [str(c) for c in log.calls] == ["(root)", "head"]
    assert parity.check(model, (torch.randn(4, 2),), round_trip=True).ok


def test_slots_follow_the_signature() -> None:
    class Many(nn.Module):
        def forward(self, a: Any, b: Any, *rest: Any, mask: Any = None, **more: Any) -> None: ...

    def slots(*args: Any, **kwargs: Any) -> list[str]:
        return [slot for _, slot in input_slots(Many(), args, kwargs)]

    assert slots(b=X, a=X) == ["a", "b"], "in the order of the parameters, however they are given"
    assert slots(X, {"k": [X, 3, X]}) == ["a", "b['k'][0]", "b['k'][2]"]
    assert slots(X, X, X, X, mask=X, extra=X) == ["a", "b", "rest[0]", "rest[1]", "mask", "extra"]
    assert slots(X, None, mask=X) == ["a", "mask"]


class Fails(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        raise ValueError("not here")


class Falls(nn.Module):
    """A network that goes on without a module that fails."""

    def __init__(self) -> None:
        super().__init__()
        self.fails, self.act = Fails(), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        try:
            self.fails(x)
        except ValueError:
            x = self.act(x)
        return x


def test_an_exception_that_is_caught_leaves_the_cell_that_raised_it() -> None:
    current = CurrentCell()
    outer = nn.Sequential(Falls(), nn.Identity())
    paths_at_call: list[list[str]] = []
    outer[1].register_forward_pre_hook(lambda *_: paths_at_call.append(list(current.paths)))
    with watch(outer, current):
        outer(X)
    assert paths_at_call == [["", ""]]
    assert current.paths == [""]


def test_a_visitor_may_say_what_a_cell_returns_that_raises() -> None:
    class Instead(Visitor):
        def raised(self, module: nn.Module, error: Exception) -> Any:
            return torch.ones(2) if isinstance(module, Fails) else None

    model = nn.Sequential(Fails(), nn.ReLU())
    forward = vars(model[0]).get("forward")
    with watch(model, Instead(), catch=True):
        assert model(X).tolist() == [1, 1]
    assert vars(model[0]).get("forward") is forward
    with watch(model, Visitor(), catch=True), pytest.raises(ValueError, match="not here"):
        model(X)


def test_a_visitor_that_changes_nothing_leaves_the_very_objects() -> None:
    class Echo(nn.Module):
        def forward(self, given: dict[str, Tensor]) -> dict[str, Tensor]:
            given["y"] = given["x"] + 1
            return given

    given = {"x": X}
    with watch(model := Echo(), Visitor()):
        assert model(given) is given
    assert set(given) == {"x", "y"}
