"""Tensors of a port that are computed from several of the reference's, or with numbers: folded, merged, moved by 1.

A map file names the form of the computation; the forms are those of this table, and nothing else is computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...runtime.errors import UsageError
from .arrangements import Array, Arrays

Numbers = Mapping[str, Any]
"""Numbers of a form by key: `eps`, `times`, `plus`."""


def _weight_norm(arrays: Sequence[Array], numbers: Numbers) -> Array:
    gain, direction = arrays
    axes = tuple(axis for axis, size in enumerate(gain.shape) if size == 1)
    return np.asarray(gain * direction / np.sqrt(np.square(direction).sum(axis=axes, keepdims=True)))


def _scaled(arrays: Sequence[Array], numbers: Numbers) -> Array:
    weight, factor = arrays
    return np.asarray(weight * factor.reshape(-1, *([1] * (weight.ndim - 1))))


def _scaled_columns(arrays: Sequence[Array], numbers: Numbers) -> Array:
    weight, factor = arrays
    return np.asarray(weight * factor.reshape(1, -1, *([1] * (weight.ndim - 2))))


def _batch_norm(arrays: Sequence[Array], numbers: Numbers) -> Array:
    weight, gain, variance = arrays
    return _scaled((weight, gain / np.sqrt(variance + numbers["eps"])), numbers)


def _batch_norm_bias(arrays: Sequence[Array], numbers: Numbers) -> Array:
    offset, gain, mean, variance, *biases = arrays
    moved = (biases[0] if biases else 0.0) - mean
    return np.asarray(moved * gain / np.sqrt(variance + numbers["eps"]) + offset)


def _moved_bias(arrays: Sequence[Array], numbers: Numbers) -> Array:
    weight, shift, *biases = arrays
    product = weight.reshape(len(weight), len(shift), -1).sum(axis=2) @ shift
    return np.asarray(product + biases[0] if biases else product)


def _mixture(arrays: Sequence[Array], numbers: Numbers) -> Array:
    weights = numbers["weights"]
    if len(weights) != len(arrays):
        raise ValueError(f"{len(weights)} weights for {len(arrays)} tensors")
    return np.asarray(sum(weight * array for weight, array in zip(weights, arrays, strict=True)))


def _low_rank(arrays: Sequence[Array], numbers: Numbers) -> Array:
    base, up, down = arrays
    return np.asarray(base + numbers["times"] * (up @ down))


def _sum(arrays: Sequence[Array], numbers: Numbers) -> Array:
    total = sum(arrays[1:], arrays[0])
    return np.asarray(total + np.asarray(numbers.get("plus", 0.0), total.dtype))


def _affine(arrays: Sequence[Array], numbers: Numbers) -> Array:
    (array,) = arrays
    return np.asarray(array * numbers.get("times", 1.0) + np.asarray(numbers.get("plus", 0.0), array.dtype))


def _zeros(arrays: Sequence[Array], numbers: Numbers) -> Array:
    (array,) = arrays
    return np.zeros(array.shape[:1])


@dataclass(frozen=True)
class Form:
    """A form of computation.

    Attributes:
        tensors: the fewest and the most tensors that it takes.
        needed: keys of numbers that it needs.
        optional: keys of numbers that it may have.
        compute: computes the tensor.
        what: what the tensors are, in words.
    """

    tensors: tuple[int, int]
    needed: frozenset[str]
    optional: frozenset[str]
    compute: Callable[[Sequence[Array], Numbers], Array]
    what: str


FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp,
    "minus_exp": lambda x: -np.exp(x),
    "log": np.log,
    "log_minus": lambda x: np.log(-x),
    "sigmoid": lambda x: np.asarray(0.5 * (1.0 + np.tanh(0.5 * x))),
    "softplus": lambda x: np.asarray(np.logaddexp(x, np.zeros((), x.dtype))),
    "tanh": np.tanh,
}
"""Functions that one network may compute from a tensor where the other holds the result, each a form by itself."""


def _function(compute: Callable[[Array], Array]) -> Form:
    return Form((1, 1), _NONE, _NONE, lambda arrays, numbers: compute(arrays[0]), "a tensor")


_NONE: frozenset[str] = frozenset()
_EPS = frozenset({"eps"})
_LISTS = ("plus", "weights")
FORMS: dict[str, Form] = {
    "weight_norm": Form((2, 2), _NONE, _NONE, _weight_norm, "the gain and the direction of torch's weight_norm"),
    "scaled": Form((2, 2), _NONE, _NONE, _scaled, "a weight or bias, and a factor for each of its rows"),
    "scaled_columns": Form((2, 2), _NONE, _NONE, _scaled_columns, "a weight, and a factor for each of its columns"),
    "batch_norm": Form((3, 3), _EPS, _NONE, _batch_norm, "a weight, and weight and running_var of the norm behind it"),
    "batch_norm_bias": Form(
        (4, 5), _EPS, _NONE, _batch_norm_bias,
        "bias, weight, running_mean and running_var of a norm, and perhaps the bias before it",
    ),
    "moved_bias": Form(
        (2, 3), _NONE, _NONE, _moved_bias, "a weight, the shift of the norm before it, and perhaps the bias behind it"
    ),
    "mixture": Form((2, 64), frozenset({"weights"}), _NONE, _mixture, "tensors of one shape"),
    "lora": Form((3, 3), frozenset({"times"}), _NONE, _low_rank, "a matrix, and lora_B and lora_A"),
    "sum": Form((2, 8), _NONE, frozenset({"plus"}), _sum, "tensors of one shape, or of shapes that are broadcast"),
    "affine": Form((1, 1), _NONE, frozenset({"times", "plus"}), _affine, "a tensor"),
    **{name: _function(compute) for name, compute in FUNCTIONS.items()},
    "zeros": Form((1, 1), _NONE, _NONE, _zeros, "a tensor with as many rows"),
}  # fmt: skip


@dataclass(frozen=True)
class Computed:
    """A tensor that is computed from tensors of the reference.

    Attributes:
        form: a name in `FORMS`.
        of: names of the tensors.
        numbers: numbers by key; `plus` may be a list, and `weights` is one.
    """

    form: str
    of: tuple[str, ...]
    numbers: tuple[tuple[str, float | tuple[float, ...]], ...] = ()

    def compute(self, arrays: Arrays) -> Array:
        """Return the tensor; raise `UsageError` if the shapes don't fit each other."""
        operands = [arrays[name] for name in self.of]
        try:
            result = FORMS[self.form].compute(operands, dict(self.numbers))
        except ValueError as error:
            shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in zip(self.of, operands, strict=True))
            raise UsageError(f"{self.form} takes {FORMS[self.form].what}; the shapes don't fit: {shapes}") from error
        return np.asarray(result).astype(operands[0].dtype, copy=False)

    def __str__(self) -> str:
        return f"{self.form} of {', '.join(self.of)}"

    def as_dict(self) -> dict[str, Any]:
        """Return the keys of a map file with their values."""
        numbers = {key: list(value) if isinstance(value, tuple) else value for key, value in self.numbers}
        return {"computed": self.form, "of": list(self.of), **numbers}


def parse_computed(value: Mapping[str, Any], where: str) -> Computed:
    """Return what a table of a map file says; raise `UsageError` if it has another form.

    Args:
        value: the table, which has the key `computed`.
        where: the file and the line, for messages.
    """
    form = FORMS.get(value["computed"]) if isinstance(value["computed"], str) else None
    if form is None:
        raise UsageError(f"{where}: `computed` must be one of {', '.join(FORMS)}, given {value['computed']!r}")
    of = value.get("of")
    least, most = form.tensors
    if not isinstance(of, list) or not least <= len(of) <= most or not all(isinstance(name, str) for name in of):
        count = str(least) if least == most else f"{least} to {most}"
        raise UsageError(f"{where}: `of` must be a list of {count} names ({form.what}), given {of!r}")
    numbers = {key: number for key, number in value.items() if key not in ("computed", "of")}
    if lacking := form.needed - numbers.keys():
        raise UsageError(f"{where}: {value['computed']} needs {', '.join(sorted(lacking))}")
    if other := numbers.keys() - form.needed - form.optional:
        raise UsageError(f"{where}: {value['computed']} has no {', '.join(map(repr, sorted(other)))}")
    parsed = tuple((key, _number(key, number, where)) for key, number in numbers.items())
    return Computed(str(value["computed"]), tuple(of), parsed)


def _number(key: str, value: Any, where: str) -> float | tuple[float, ...]:
    items = value if key in _LISTS and isinstance(value, list) and value else [value]
    for item in items:
        if isinstance(item, bool) or not isinstance(item, int | float) or not math.isfinite(item):
            raise UsageError(f"{where}: {key!r} must be a finite number, given {value!r}")
    return tuple(float(item) for item in value) if isinstance(value, list) else float(value)
