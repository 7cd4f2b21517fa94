"""Every layer and loss that `runtime.nn` exports has a case; each runs, is differentiated, shown, copied, recorded."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import numpy as np
import pytest

import cellbridge.runtime as ms
from cellbridge.runtime import Tensor, nn
from cellbridge.runtime.interpreter import execute
from cellbridge.runtime.ir.program import Program
from cellbridge.runtime.ir.types import CellCall, Type
from cellbridge.runtime.tracing import Builder
from cellbridge.runtime.tree import TENSOR, Structure
from tests.runtime.against_torch import flat
from tests.runtime.nn.layer_cases import CASES, Case

CALLED_BY_ELEMENT = {"CellList", "CellDict"}
"""Containers that compute nothing; their tests are those of Cells."""

WITHOUT_GRADIENT = {"OneHot", "Range"}
"""Layers that no floating-point number goes into."""

NOT_RECORDED = {
    "Embedding": "the table, a Tensor, computes at once with what it meets",
    "EmbeddingLookup": "the table, a Tensor, computes at once with what it meets",
    "FractionalMaxPool2d": "places that were drawn, a Tensor, compute at once with what they meet",
    "FractionalMaxPool3d": "places that were drawn, a Tensor, compute at once with what they meet",
    "MultiClassDiceLoss": "it takes columns with an index",
    "Range": "it has no inputs",
}
"""Layers that don't work on symbolic values yet, and why."""


def exported_layers(module: Any) -> set[str]:
    """Names of the Cells among a module's public names that come from its folders of layers and losses."""
    found = {name: getattr(module, name) for name in module.__all__}
    return {
        name
        for name, value in found.items()
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


class Recorded:
    """The program of a layer, with its arguments as inputs; what it computes in numbers."""

    def __init__(self, case: Case, cell: nn.Cell) -> None:
        self.builder = Builder()
        self.inputs: list[Any] = []
        self.arrays: list[np.ndarray[Any, Any]] = []
        self.outputs = list(flat(cell(*map(self._input, case.inputs))))

    def _input(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(self._input, value))
        array = np.asarray(value)
        self.arrays.append(array)
        self.inputs.append(self.builder.new_value("x", Type(array.dtype, array.shape)))
        return self.inputs[-1]

    def run(self) -> list[np.ndarray[Any, Any]]:
        program = Program(
            inputs=tuple(x.value for x in self.inputs),
            outputs=tuple(y.value for y in self.outputs),
            nodes=tuple(self.builder.nodes),
            parameters={},
            buffers={},
            constants=tuple(self.builder.constants),
            calls=(CellCall("", "Model"),),
            arguments=Structure("tuple", (Structure("tuple", (TENSOR,) * len(self.inputs)), Structure("dict"))),
            result=Structure("tuple", (TENSOR,) * len(self.outputs)),
        )
        return execute(program, self.arrays)


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
    inputs = list(flat(tuple(map(tensors, case.inputs))))
    floating = tuple(i for i, x in enumerate(inputs) if x.dtype == ms.float32)
    structure = tuple(len(x) if isinstance(x, tuple) else None for x in case.inputs)

    def total(*given: Any) -> Any:
        rest = iter(given)
        arguments = [next(rest) if n is None else tuple(next(rest) for _ in range(n)) for n in structure]
        return sum((y * y).sum() for y in flat(cell(*arguments)) if y.dtype == ms.float32)

    ms.set_seed(1)
    of_inputs, of_parameters = ms.grad(total, (*floating, 0)[: max(len(floating), 1)], parameters)(*inputs)
    of_inputs = of_inputs if isinstance(of_inputs, tuple) else (of_inputs,)
    pairs = [*zip([inputs[i] for i in floating], of_inputs, strict=False), *zip(parameters, of_parameters, strict=True)]
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


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=pytest.mark.xfail(reason=NOT_RECORDED[name], strict=True) if name in NOT_RECORDED else ()
        )
        for name in CASES
    ],
)
def test_symbolic_values_give_a_program_that_computes_the_same(name: str) -> None:
    cell = CASES[name].make()
    recorded = Recorded(CASES[name], cell)
    ms.set_seed(1)
    for y, e in zip(recorded.run(), run(CASES[name], cell), strict=True):
        np.testing.assert_allclose(y, e, rtol=1e-5, atol=1e-5)


def test_a_copy_computes_the_same_and_is_apart(named: tuple[str, Case]) -> None:
    _, case = named
    cell = case.make()
    twin = copy.deepcopy(cell)
    for y, e in zip(run(case, twin), run(case, cell), strict=True):
        np.testing.assert_array_equal(y, e)
    for mine, theirs in zip(twin.get_parameters(), cell.get_parameters(), strict=True):
        assert mine is not theirs
        assert mine.name == theirs.name
