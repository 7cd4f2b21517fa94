"""Every layer and loss, forward and backward, in ONNX Runtime: with the sizes of its case and with other ones."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import cellbridge.runtime as ms
from cellbridge.runtime import Tensor, nn
from tests.runtime.against_torch import flat
from tests.runtime.nn.layer_cases import CASES, Case
from tests.runtime.nn.test_every_layer import WITHOUT_GRADIENT, differentiable, tensors

Array = np.ndarray[Any, Any]


def arrays(inputs: Any) -> Iterator[Array]:
    for item in inputs if isinstance(inputs, tuple) else [np.asarray(inputs)]:
        yield from arrays(item) if isinstance(item, tuple) else [np.asarray(item)]


def resized(inputs: Any, size: int, new: int) -> Any:
    """The inputs with each axis of one size repeated or cut to another."""
    if isinstance(inputs, tuple):
        return tuple(resized(item, size, new) for item in inputs)
    array = np.asarray(inputs)
    for axis in [axis for axis, n in enumerate(array.shape) if n == size]:
        array = np.take(array, np.arange(new) % size, axis)
    return array


def other_inputs(case: Case) -> Iterator[Any]:
    """Inputs of other sizes that the layer takes: for each size of its case, the first that will do."""
    for size in sorted({n for array in arrays(case.inputs) for n in array.shape} - {0, 1}):
        for new in (size + 1, size + 2, 2 * size):
            inputs = resized(case.inputs, size, new)
            try:
                case.make().set_train()(*map(tensors, inputs))
            except (ValueError, RuntimeError, IndexError, TypeError, ms.CellbridgeError):
                continue
            yield inputs
            break


def values(function: Any, cell: nn.Cell, before: dict[str, Array], given: list[Any]) -> list[Array]:
    """What a function of a Cell gives, from the same state and the same seed."""
    for name, parameter in cell.parameters_and_names():
        parameter.set_data(Tensor(before[name]))
    ms.set_seed(1)
    return [y.asnumpy() for y in flat(function(*given))]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_it_gives_what_it_gives_in_eager_mode(name: str) -> None:
    case = CASES[name]
    for training in (False, True):
        cell = case.make().set_train(training)
        before = {path: parameter.asnumpy() for path, parameter in cell.parameters_and_names()}
        jitted = ms.jit(cell)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for inputs in (case.inputs, *other_inputs(case)):
                given = list(map(tensors, inputs))
                got = values(jitted, cell, before, given)
                for y, e in zip(got, values(cell, cell, before, given), strict=True):
                    np.testing.assert_allclose(y, e, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CASES.keys() - WITHOUT_GRADIENT))
def test_its_gradients_are_those_of_eager_mode(name: str) -> None:
    case = CASES[name]
    cell = case.make().set_train()
    before = {path: parameter.asnumpy() for path, parameter in cell.parameters_and_names()}
    _, total, positions = differentiable(case, cell)
    function = ms.value_and_grad(total, positions, cell.trainable_params())
    jitted = ms.jit(function)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for inputs in (case.inputs, *other_inputs(case)):
            given = [Tensor(array) for array in arrays(inputs)]
            got = values(jitted, cell, before, given)
            for y, e in zip(got, values(function, cell, before, given), strict=True):
                np.testing.assert_allclose(y, e, rtol=2e-3, atol=1e-4 * max(1.0, float(np.abs(e).max(initial=0))))
