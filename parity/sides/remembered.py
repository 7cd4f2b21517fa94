"""What is kept from one run of a program to the next: its forms by dtype, and the results of what doesn't change."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from ...runtime.ir.program import Program
from ...runtime.ir.types import Attributes, Type
from ...runtime.ops.registry import Op, evaluate
from ...runtime.programs.gradient_program import GradientProgram, differentiate
from .records import Array

MOST_BYTES = 2**27
"""Size of all results that are kept."""

Key = tuple[Any, ...]


class Results:
    """Results of layers by what they were computed from, the last used at the end.

    Attributes:
        bytes: their size.
    """

    def __init__(self) -> None:
        self._by_key: OrderedDict[Key, tuple[Array, ...]] = OrderedDict()
        self._lock = threading.Lock()
        self.bytes = 0

    def get(self, key: Key) -> tuple[Array, ...] | None:
        """Return the results of a layer; None if they aren't known."""
        with self._lock:
            if key in self._by_key:
                self._by_key.move_to_end(key)
            return self._by_key.get(key)

    def add(self, key: Key, results: tuple[Array, ...]) -> None:
        """Keep the results of a layer, and forget those that were used longest ago if all are too large."""
        with self._lock:
            if key in self._by_key:  # another thread was faster
                return
            self._by_key[key] = results
            self.bytes += _size(results)
            while self.bytes > MOST_BYTES:
                self.bytes -= _size(self._by_key.popitem(last=False)[1])


_results = Results()


def evaluate_or_remember(
    op: Op, operands: list[Array | None], attributes: Attributes, types: tuple[Type, ...]
) -> tuple[Array, ...]:
    """Return what `evaluate` returns; for a recurrent layer, a copy of it if the operands are the same as before."""
    if not op.traits.recurrent:
        return evaluate(op, operands, attributes, types)
    key = (op.name, *sorted(attributes.items()), *map(_identity, operands))
    results = _results.get(key)
    if results is None:
        results = evaluate(op, operands, attributes, types)
        _results.add(key, results)
    return tuple(array.copy() for array in results)


def _identity(array: Array | None) -> tuple[Any, ...] | None:
    if array is None:
        return None
    digest = hashlib.blake2b(np.ascontiguousarray(array).view(np.uint8).reshape(-1).data).digest()
    return array.dtype.name, array.shape, digest


def _size(arrays: tuple[Array, ...]) -> int:
    return sum(array.nbytes for array in arrays)


Form = tuple[str, int]
"""The dtype, and the number of the perturbation."""


class ProgramForms:
    """The forms of a program.

    Args:
        make: returns the program in a dtype and with a perturbation.
    """

    def __init__(self, make: Callable[[str, int], Program]) -> None:
        self._make = make
        self._programs: dict[Form, Program] = {}
        self._gradients: dict[Form, GradientProgram] = {}

    def program(self, dtype: str, perturbed: int) -> Program:
        """Return the program in a dtype, with a perturbation; 0 for none."""
        if (dtype, perturbed) not in self._programs:
            for way in {way for _, way in self._programs} - {0, perturbed}:  # float64 weights that aren't needed again
                self._programs.pop((dtype, way), None)
                self._gradients.pop((dtype, way), None)
            self._programs[dtype, perturbed] = self._make(dtype, perturbed)
        return self._programs[dtype, perturbed]

    def gradient(self, dtype: str, perturbed: int) -> GradientProgram:
        """Return the gradient program of that form."""
        if (dtype, perturbed) not in self._gradients:
            self._gradients[dtype, perturbed] = differentiate(self.program(dtype, perturbed), every_boundary=True)
        return self._gradients[dtype, perturbed]

    def clear(self) -> None:
        """Forget all forms."""
        self._programs.clear()
        self._gradients.clear()
