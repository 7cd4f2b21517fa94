"""The golden cases: what they hold, who runs them, and how a result is compared with what was expected."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cellbridge.runtime import Tensor

FILE = Path(__file__).parents[3] / "fixtures" / "golden" / "cell-golden.json"

Params = dict[str, Any]
Inputs = dict[str, Any]
Runner = Callable[[Params, Inputs], dict[str, Any]]

RUNNERS: dict[str, Runner] = {}
"""By kind of case: from its parameters and inputs (tensors, decoded) to what it computes, in the form of `expected`."""


def runner(kind: str) -> Callable[[Runner], Runner]:
    """Declare who runs the cases of a kind."""

    def declare(function: Runner) -> Runner:
        assert kind not in RUNNERS, f"kind {kind!r} has two runners"
        RUNNERS[kind] = function
        return function

    return declare


@dataclass(frozen=True)
class Case:
    """One case of the file, as it stands there."""

    id: str
    kind: str
    params: Params
    inputs: Inputs
    expected: dict[str, Any]
    rtol: float = 0.0
    atol: float = 0.0

    def __str__(self) -> str:
        return self.id

    def run(self) -> dict[str, Any]:
        """What we compute, with tensors of its own at each run."""
        return RUNNERS[self.kind](self.params, decoded(self.inputs))

    def differences(self, got: dict[str, Any]) -> list[str]:
        """How `got` differs from what is expected; none if it is right."""
        return differences(got, self.expected, self.rtol, self.atol, self.id)


def load() -> tuple[list[Case], dict[str, Any]]:
    """The cases, and the rest of the file."""
    written = json.loads(FILE.read_text())
    fields = Case.__dataclass_fields__.keys()
    return [Case(**{name: item[name] for name in fields & item.keys()}) for item in written.pop("cases")], written


def is_tensor(item: Any) -> bool:
    """Whether a part of the file is a tensor."""
    return isinstance(item, dict) and item.keys() == {"shape", "dtype", "data"}


def array(item: dict[str, Any]) -> np.ndarray[Any, Any]:
    """The array that is written as `{shape, dtype, data}`."""
    return np.array([float(x) if isinstance(x, str) else x for x in item["data"]], item["dtype"]).reshape(item["shape"])


def decoded(item: Any) -> Any:
    """A part of the file with tensors in place of their descriptions."""
    if is_tensor(item):
        return Tensor(array(item))
    if isinstance(item, dict):
        return {name: decoded(value) for name, value in item.items()}
    return [decoded(value) for value in item] if isinstance(item, list) else item


def differences(got: Any, expected: Any, rtol: float, atol: float, path: str) -> list[str]:
    """How a result differs from what is expected, one line for each place."""
    if is_tensor(expected):
        return _tensor_differences(got, array(expected), rtol, atol, path)
    if isinstance(expected, dict):
        if not isinstance(got, dict) or got.keys() != expected.keys():
            return [f"{path}: got {sorted(got) if isinstance(got, dict) else got!r}, expected keys {sorted(expected)}"]
        return [line for key in expected for line in differences(got[key], expected[key], rtol, atol, f"{path}.{key}")]
    if isinstance(expected, list):
        if not isinstance(got, (list, tuple)) or len(got) != len(expected):
            return [f"{path}: got {got!r}, expected {len(expected)} items"]
        pairs = enumerate(zip(got, expected, strict=True))
        return [line for i, (g, e) in pairs for line in differences(g, e, rtol, atol, f"{path}[{i}]")]
    if isinstance(expected, float):
        return _tensor_differences(np.asarray(got), np.asarray(expected), rtol, atol, path, dtype=False)
    return [] if type(got) is type(expected) and got == expected else [f"{path}: got {got!r}, expected {expected!r}"]


def _tensor_differences(
    got: Any, expected: np.ndarray[Any, Any], rtol: float, atol: float, path: str, dtype: bool = True
) -> list[str]:
    if isinstance(got, Tensor):
        got = got.asnumpy()
    if not isinstance(got, np.ndarray) or got.shape != expected.shape or (dtype and got.dtype != expected.dtype):
        kind = f"{got.dtype} {got.shape}" if isinstance(got, np.ndarray) else type(got).__name__
        return [f"{path}: got {kind}, expected {expected.dtype} {expected.shape}"]
    if expected.dtype.kind in "iub":
        same = np.array_equal(got, expected)
    else:
        same = np.allclose(got.astype(np.float64), expected.astype(np.float64), rtol, atol, equal_nan=True)
    return [] if same else [f"{path}: got\n{got}\nexpected\n{expected}\nrtol {rtol}, atol {atol}"]
