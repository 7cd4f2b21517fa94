"""What functions and methods that traced code calls find in variables: compiled code follows it, or refuses changes."""

from __future__ import annotations

import functools
import random
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellbridge.runtime as ms
from cellbridge.runtime import Tensor, UnsupportedPython, nn, ops

X = Tensor(np.arange(6, dtype=np.float32).reshape(2, 3) - 2)
FACTOR = 2.0
TABLE = {"gain": 1.0}
settings = types.ModuleType("settings")
settings.factor = 2.0  # type: ignore[attr-defined]
settings.inner = types.ModuleType("settings.inner")  # type: ignore[attr-defined]
settings.inner.factor = 2.0  # type: ignore[attr-defined]
calls = 0
generator = np.random.default_rng(0)
old_generator = np.random.RandomState(0)
shuffler = random.Random(0)


def scaled(x: Any) -> Any:
    return x * FACTOR * TABLE["gain"]


def deeper(x: Any) -> Any:
    return scaled(x) + 1


class Gain:
    def __init__(self) -> None:
        self.factor = 1.0

    @property
    def both(self) -> float:
        return self.factor * FACTOR

    def __call__(self, x: Any) -> Any:
        return x * FACTOR


class Network(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.gain = Gain()

    def part(self, x: Any, offset: float = 1.0) -> Any:
        return scaled(x) + offset

    @staticmethod
    def other(x: Any) -> Any:
        return x - FACTOR

    def steps(self) -> None:
        global calls
        calls += 1

    def construct(self, x: Any) -> Any:
        return self.gain(self.other(self.part(x))) * self.gain.both * settings.inner.factor


def wrapping(factors: dict[str, float]) -> Callable[..., Any]:
    def decorate(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(x: Any) -> Any:
            return function(x) * factors["gain"]

        return wrapper

    return decorate


FACTORS = {"gain": 1.0}


@wrapping(FACTORS)
def decorated(x: Any) -> Any:
    return x + 1


def calls_attribute(x: Any) -> Any:
    return settings.factor * decorated(deeper(x))  # type: ignore[attr-defined]


def given(x: Any, function: Callable[..., Any]) -> Any:
    return function(x)


CHANGES: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "a variable of a function that is called": lambda m: m.setitem(globals(), "FACTOR", 7.0),
    "what a list there holds": lambda m: m.setitem(TABLE, "gain", 7.0),
    "a function that is called": lambda m: m.setitem(globals(), "scaled", lambda x: x - 9),
    "a variable of a module": lambda m: m.setattr(settings, "factor", 7.0),
    "a variable of a module in a module": lambda m: m.setattr(settings.inner, "factor", 7.0),
    "what a wrapper uses": lambda m: m.setitem(FACTORS, "gain", 7.0),
    "a default of a method": lambda m: m.setattr(Network.part, "__defaults__", (7.0,)),
    "a method": lambda m: m.setattr(Network, "other", staticmethod(lambda x: x * 9)),
    "construct": lambda m: m.setattr(Network, "construct", lambda self, x: x * 9),
    "a method of an object": lambda m: m.setattr(Gain, "__call__", lambda self, x: x * 9),
    "a property of an object": lambda m: m.setattr(Gain, "both", property(lambda self: 9.0)),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.every(4)
def test_compiled_code_follows_what_helpers_use(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network, gives = Network(), ms.jit(given)
    runs = [
        (ms.jit(calls_attribute), calls_attribute),
        (ms.jit(network), network),
        (lambda x: gives(x, deeper), deeper),
        (ms.jit(lambda x: network(x)), network),
    ]
    for compiled, eager in runs:
        np.testing.assert_allclose(compiled(X).asnumpy(), eager(X).asnumpy(), rtol=1e-6)
    CHANGES[change](monkeypatch)
    for compiled, eager in runs:
        np.testing.assert_allclose(compiled(X).asnumpy(), eager(X).asnumpy(), rtol=1e-6)


def test_a_class_made_twice_has_variables_of_its_own() -> None:
    def made(factors: list[float]) -> nn.Cell:
        class Scales(nn.Cell):
            def construct(self, x: Any) -> Any:
                return x * factors[0]

        return Scales()

    second = [3.0]
    both = ms.jit(nn.SequentialCell(made([2.0]), made(second)))
    assert both(X).asnumpy()[0, 0] == -12
    second[0] = 5.0
    assert both(X).asnumpy()[0, 0] == -20


def test_methods_that_are_not_called_change_nothing() -> None:
    network = Network()
    compiled = ms.jit(network)
    for _ in range(3):
        compiled(X)
        network.steps()
    assert compiled.cache_info().traces == 1


def counted(x: Any) -> Any:
    global calls
    calls += 1
    return x * calls


def test_what_a_helper_changes_is_refused() -> None:
    before = calls
    with pytest.raises(UnsupportedPython, match="the variable calls"):
        ms.jit(lambda x: counted(x))(X)
    assert calls == before


@pytest.mark.parametrize(
    "draw",
    [lambda: generator.random(), lambda: old_generator.rand(), lambda: shuffler.random()],
    ids=["Generator", "RandomState", "Random"],
)
def test_draws_from_a_generator_of_ones_own_are_refused(draw: Callable[[], float]) -> None:
    with pytest.raises(UnsupportedPython, match="random numbers were drawn from the variable"):
        ms.jit(lambda x: x * draw())(X)
    kept = np.random.default_rng(3)
    compiled = ms.jit(lambda x: x * (2 if kept is not None else 1))  # that it is drawn from elsewhere says nothing
    compiled(X)
    kept.random()
    compiled(X)
    assert compiled.cache_info().traces == 1


def first(x: Any) -> Any:
    try:
        return float(x[0, 0])
    except ValueError:
        return 0.0


def test_a_refusal_that_a_helper_catches_is_raised() -> None:
    with pytest.raises(ms.UnknownValue, match=r"return float\(x\[0, 0\]\)"):
        ms.jit(lambda x: x * first(x))(X)


def test_zeros_and_nan_among_python_numbers() -> None:
    compiled = ms.jit(lambda x, zero: ops.full_like(x, zero))
    assert not np.signbit(compiled(X, 0.0).asnumpy()).any()
    assert np.signbit(compiled(X, -0.0).asnumpy()).all()
    for _ in range(3):
        assert np.isnan(compiled(X, float("nan")).asnumpy()).all()
    assert compiled.cache_info().traces == 3


def pair(size: Any) -> tuple[int, int]:
    return (size, 2) if isinstance(size, int) else (1, 1)


def test_isinstance_of_a_size_is_no_silent_decision() -> None:
    compiled = ms.jit(lambda x: ops.ones(pair(x.shape[0])))
    for rows in (3, 4, 5, 6):
        assert compiled(Tensor(np.zeros((rows, 2)))).shape == (rows, 2)
    with pytest.raises(ms.UnknownSize, match="a decision by `isinstance` requires the value of the size n"):
        ms.trace(lambda x: ops.ones(pair(x.shape[0])), (X,), dynamic_shapes=({0: "n"},))
