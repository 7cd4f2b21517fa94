"""Every layer and loss that `runtime.nn` exports has a case; each runs, is differentiated, shown, copied, traced."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import numpy as np
import pytest

import cellbridge.runtime as ms
from cellbridge.runtime import Tensor, nn
from cellbridge.runtime.graph import trace
from tests.runtime.against_torch import flat
from tests.runtime.nn.layer_cases import CASES, Case

CALLED_BY_ELEMENT = {"CellList", "CellDict"}
"""Containers that compute nothing; their tests are those of Cells."""

WITHOUT_GRADIENT = {"OneHot", "Range"}
"""Layers that no floating-point number goes into."""


def exported_layers(module: Any) -> set[str]:
    """Names of the Cells among a module's public names that come from its folders of layers and losses."""
    values_by_name = {name: getattr(module, name) for name in module.__all__}
    return {
        name
        for name, value in values_by_name.items()
        if inspect.isclass(value)
        and issubclass(value, nn.Cell)
        and value.__module__.startswith(("cellbridge.runtime.nn.layer.", "cellbridge.runtime.nn.loss."))
    }


def test_every_exported_layer_has_a_case() -> None:
    assert exported_layers(nn) - CALLED_BY_ELEMENT == set(CASES)


def test_a_layer_without_a_case_is_found() -> None:
    class Module:
        Another = type("Another", (nn.Dense,), {"__module__": "cellbridge.runtime.nn.layer.another"})
        Cell = nn.Cell
        Momentum = nn.Momentum
        __all__ = ("Another", "Cell", "Momentum")

    assert exported_layers(Module) == {"Another"}


def tensors(value: Any) -> Any:
    """Arrays in tuples as Tensors in tuples."""
    return tuple(map(tensors, value)) if isinstance(value, tuple) else Tensor(value)


def run(case: Case, cell: nn.Cell) -> list[np.ndarray[Any, Any]]:
    """The arrays in the output, drawn with one seed."""
    ms.set_seed(1)
    return [y.asnumpy() for y in flat(cell(*map(tensors, case.inputs)))]


def differentiable(case: Case, cell: nn.Cell) -> tuple[list[Tensor], Any, tuple[int, ...]]:
    """The inputs of a layer as a flat list, a function of them that gives a number, and the positions of the floats.

    Where there are no floats, the position of the first input: `grad` needs one.
    """
    inputs = list(flat(tuple(map(tensors, case.inputs))))
    floating = tuple(i for i, x in enumerate(inputs) if x.dtype == ms.float32)
    structure = tuple(len(x) if isinstance(x, tuple) else None for x in case.inputs)

    def total(*given: Any) -> Any:
        rest = iter(given)
        arguments = [next(rest) if n is None else tuple(next(rest) for _ in range(n)) for n in structure]
        return sum((y * y).sum() for y in flat(cell(*arguments)) if y.dtype == ms.float32)

    return inputs, total, floating or (0,)


@pytest.fixture(params=CASES, ids=str)
def named(request: pytest.FixtureRequest) -> tuple[str, Case]:
    return request.param, CASES[request.param]


def test_it_runs_in_training_and_otherwise(named: tuple[str, Case]) -> None:
    name, case = named
    cell = case.make()
    assert isinstance(cell, getattr(nn, name))
    for training in (False, True):
        ys = run(case, cell.set_train(training))
        assert tuple(y.shape for y in ys) == case.shapes
        assert all(np.isfinite(y).all() for y in ys)


def test_gradients_reach_its_inputs_and_parameters(named: tuple[str, Case]) -> None:
    name, case = named
    if name in WITHOUT_GRADIENT:
        return
    cell = case.make().set_train()
    parameters = cell.trainable_params()
    inputs, total, positions = differentiable(case, cell)
    ms.set_seed(1)
    of_inputs, of_parameters = ms.grad(total, positions, parameters)(*inputs)
    of_inputs = of_inputs if isinstance(of_inputs, tuple) else (of_inputs,)
    floating = [x for x in inputs if x.dtype == ms.float32]
    pairs = [*zip(floating, of_inputs, strict=False), *zip(parameters, of_parameters, strict=True)]
    assert pairs
    for operand, gradient in pairs:
        assert gradient.shape == operand.shape
        assert np.isfinite(gradient.asnumpy()).all()
    assert any(gradient.asnumpy().any() for _, gradient in pairs)


def test_it_is_shown_by_name_and_arguments(named: tuple[str, Case]) -> None:
    _, case = named
    cell = case.make()
    shown = repr(cell)
    assert shown.startswith(f"{type(cell).__name__}(")
    assert shown.endswith(")")
    if inspect.signature(type(cell)).parameters.keys() - {"auto_prefix", "flags", "args", "kwargs"}:
        assert shown != f"{type(cell).__name__}()"


@pytest.mark.every(2)
@pytest.mark.parametrize("training", [False, True])
def test_it_is_traced_to_a_program_that_computes_the_same(named: tuple[str, Case], training: bool) -> None:
    _, case = named
    cell = case.make().set_train(training)
    given = tuple(map(tensors, case.inputs))
    traced = trace(cell, given)
    ms.set_seed(1)
    for y, e in zip(flat(traced.program(*given)), run(case, cell), strict=True):
        np.testing.assert_allclose(y, e, rtol=1e-6, atol=1e-6)
    assert traced.program.calls[0].class_name == type(cell).__name__
    parameters = list(cell.get_parameters())
    assert all(any(parameter is held for held in parameters) for parameter in traced.parameters.values())


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.every(4)
def test_its_gradients_are_traced(named: tuple[str, Case], training: bool) -> None:
    name, case = named
    if name in WITHOUT_GRADIENT:
        return
    cell = case.make().set_train(training)
    given, total, floating = differentiable(case, cell)
    function = ms.value_and_grad(total, floating, cell.trainable_params())
    program = trace(function, tuple(given)).program
    ms.set_seed(1)
    traced = list(flat(program(*given)))
    ms.set_seed(1)
    for y, e in zip(traced, flat(function(*given)), strict=True):
        np.testing.assert_allclose(y, e.asnumpy(), rtol=1e-5, atol=1e-6)


def test_a_copy_computes_the_same_and_is_apart(named: tuple[str, Case]) -> None:
    _, case = named
    cell = case.make()
    twin = copy.deepcopy(cell)
    for y, e in zip(run(case, twin), run(case, cell), strict=True):
        np.testing.assert_array_equal(y, e)
    for parameter, original in zip(twin.get_parameters(), cell.get_parameters(), strict=True):
        assert parameter is not original
        assert parameter.name == original.name
