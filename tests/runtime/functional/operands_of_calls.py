"""The operands by name that the calls of `measured.json` and `equivalents` are written with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import cellbridge.runtime as ms
from cellbridge.runtime import Parameter, Tensor, nn, ops


def array(shape: tuple[int, ...], dtype: str = "float32", lo: float = -2.0, hi: float = 2.0, seed: int = 0) -> Any:
    """Numbers that depend on shape and seed alone, whatever the version of NumPy."""
    draw = np.random.RandomState(seed + sum(shape) * 7)
    if dtype == "bool":
        return draw.rand(*shape) > 0.5
    if dtype.startswith(("int", "uint")):
        return draw.randint(0 if dtype[0] == "u" else -4, 5, shape).astype(dtype)
    return (draw.rand(*shape) * (hi - lo) + lo).astype(dtype)


def tensor(*shape: int, dt: str = "float32", lo: float = -2.0, hi: float = 2.0, seed: int = 0) -> Tensor:
    """A tensor with the elements of `array`."""
    return Tensor(array(shape, dt, lo, hi, seed))


class Functions:
    """Functions to differentiate and to map."""

    @staticmethod
    def sq(a: Any) -> Any:
        """a * a."""
        return a * a

    @staticmethod
    def mul2(a: Any, q: Any) -> Any:
        """Product and sum."""
        return a * q, a + q

    @staticmethod
    def mulsum(a: Any, q: Any) -> Any:
        """A product, and the sum of the elements."""
        return a * q, a.sum()

    @staticmethod
    def f1(a: Any) -> Any:
        """Squares, and the sum of the elements."""
        return a * a, a.sum()

    @staticmethod
    def f2(a: Any) -> Any:
        """Squares, and the elements."""
        return a * a, a

    @staticmethod
    def addp(a: Any, q: Any) -> Any:
        """A sum."""
        return a + q


_NAMES: dict[str, Any] = {
    "ms": ms, "ops": ops, "nn": nn, "np": np, "Tensor": Tensor, "T": tensor, "arr": array, "fns": Functions,
    "W": lambda: Parameter(tensor(3, 4, seed=9), name="w"),
}  # fmt: skip

_OPERANDS: dict[str, Callable[[], Tensor]] = {
    "f": lambda: tensor(2, 3),
    "g": lambda: tensor(2, 3, seed=5),
    "h": lambda: tensor(2, 3, dt="float16"),
    "d": lambda: tensor(2, 3, dt="float64"),
    "i": lambda: tensor(2, 3, dt="int32"),
    "l": lambda: tensor(2, 3, dt="int64"),
    "b": lambda: tensor(2, 3, dt="bool"),
    "u": lambda: tensor(2, 3, dt="uint8"),
    "p": lambda: tensor(2, 3, lo=0.1, hi=3.0),
    "v": lambda: tensor(4),
    "c": lambda: tensor(3, seed=3),
    "s": lambda: Tensor(np.float32(1.5)),
    "x3": lambda: tensor(2, 3, 5),
    "x4": lambda: tensor(2, 4, 6, 6),
    "sq": lambda: tensor(3, 3),
    "idx": lambda: Tensor(np.array([1, 0, 1], np.int32)),
    "idl": lambda: Tensor(np.array([1, 0, 1])),
    "nd": lambda: Tensor(np.array([[0, 1], [2, 3]], np.int32)),
}


class _Fresh(dict[str, Tensor]):
    """Operands, each made when it is first named."""

    def __missing__(self, name: str) -> Tensor:
        self[name] = _OPERANDS[name]()
        return self[name]


def result_of(call: str) -> Any:
    """What a call gives, on fresh operands."""
    return eval(call, dict(_NAMES), _Fresh())
