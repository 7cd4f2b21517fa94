"""Layouts of tensors, and rows of parameters, found from numbers."""

from __future__ import annotations

import math

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cellbridge.converter import from_torch
from cellbridge.parity.correspondence.layouts import Layout, find_layout
from cellbridge.parity.pairing.by_values.parameter_rows import with_rows_of_the_module
from cellbridge.parity.sides.side import ParameterInfo


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    divided = tuple(
        draw(st.lists(st.integers(1, 4), min_size=2, max_size=5).filter(lambda sizes: math.prod(sizes) > 3))
    )
    permutation = tuple(draw(st.permutations(range(len(divided)))))
    exchanged = tuple(divided[axis] for axis in permutation)
    return Layout(joined(draw, divided), divided, permutation, joined(draw, exchanged))


def joined(draw: st.DrawFn, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Join some neighbouring axes."""
    result = [sizes[0]]
    for size in sizes[1:]:
        if draw(st.booleans()):
            result[-1] *= size
        else:
            result.append(size)
    return tuple(result)


def test_another_order_along_an_axis_is_found_from_the_numbers() -> None:
    array = np.random.default_rng(0).standard_normal((2, 5, 7))
    truth = array[:, [3, 0, 4, 2, 1]].transpose(0, 2, 1)
    layout = find_layout([array], [truth], in_any_order=True)
    assert layout is not None
    assert np.array_equal(layout.read(array), truth)
    assert np.array_equal(layout.inverse.read(truth), array)
    assert find_layout([array], [truth]) is None


def test_other_orders_along_two_axes_are_no_layout() -> None:
    array = np.random.default_rng(0).standard_normal((4, 5))
    assert find_layout([array], [array[::-1][:, [1, 0, 2, 4, 3]]], in_any_order=True) is None
    assert find_layout([array], [array.reshape(-1)[::-1].reshape(4, 5)], in_any_order=True) is None


@given(layouts())
def test_any_order_of_divided_axes_is_found_from_the_numbers(layout: Layout) -> None:
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(layout.source) for _ in range(2)]
    truth = [layout.read(array) * (1 + 1e-15) for array in arrays]
    inferred = find_layout(arrays, truth)
    assert inferred is not None
    np.testing.assert_allclose(inferred.read(arrays[1]), truth[1], rtol=1e-12)
    np.testing.assert_array_equal(inferred.inverse.read(inferred.read(arrays[0])), arrays[0])


@given(layouts())
def test_other_numbers_have_no_layout(layout: Layout) -> None:
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(layout.source) for _ in range(2)]
    truth = [layout.read(array) for array in arrays]
    truth[1] = truth[1] + 1e-6 * random.standard_normal(layout.target)
    assert find_layout(arrays, truth) is None


class Product(torch.nn.Module):
    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.fused = torch.nn.Parameter(weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tensordot(x, self.fused.flatten(1).sin(), 1)


@settings(max_examples=20)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=3), st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_rows_of_parameters_are_found_and_gradients_are_theirs(
    sizes: list[int], in_order: bool, columns_in_order: bool, is_transposed: bool, has_axes: bool
) -> None:
    random = np.random.default_rng(len(sizes))
    parts = {f"part{number}": random.standard_normal((size, 4)) for number, size in enumerate(sizes)}
    rows = np.arange(sum(sizes)) if in_order else random.permutation(sum(sizes))
    columns = np.arange(4) if columns_in_order else random.permutation(4)
    fused = np.concatenate([*parts.values()])[rows][:, columns]
    fused = fused.T if is_transposed else fused
    module = Product(torch.tensor(fused[:, None] if has_axes else fused))
    program = from_torch(module, (torch.randn(2, len(fused), dtype=torch.float64),))
    infos = {name: ParameterInfo(data, True) for name, data in parts.items()}
    users = {program.parameters["fused"].value: {""}}
    rewritten = with_rows_of_the_module(program, infos, users, lambda path: list(parts))
    shape = program.parameters["fused"].data.shape
    is_arranged = not any(shape == data.shape and np.array_equal(fused, data) for data in parts.values())
    assert set(rewritten.parameters) == (set(parts) if is_arranged else {"fused"})
    x = random.standard_normal((2, len(fused)))
    result, gradients = program.value_and_grad(x)
    result_of_parts, of_parts = rewritten.value_and_grad(x)
    np.testing.assert_array_equal(result, result_of_parts)
    if is_arranged:
        gradient = gradients.parameters["fused"].reshape(fused.shape)
        gradient = gradient.T if is_transposed else gradient
        joined = np.concatenate([of_parts.parameters[name] for name in parts])
        np.testing.assert_allclose(joined[rows][:, columns], gradient, rtol=1e-12)


def test_a_parameter_with_another_number_is_left_alone() -> None:
    random = np.random.default_rng(0)
    parts = {name: random.standard_normal((3, 4)) for name in ("q", "k")}
    fused = np.concatenate([*parts.values()])
    fused[5, 1] += 1e-3
    program = from_torch(Product(torch.tensor(fused)), (torch.randn(2, 6, dtype=torch.float64),))
    infos = {name: ParameterInfo(data, True) for name, data in parts.items()}
    users = {program.parameters["fused"].value: {""}}
    assert with_rows_of_the_module(program, infos, users, lambda path: list(parts)) is program


def test_a_bias_of_several_heads_is_that_of_the_weight() -> None:
    random = np.random.default_rng(0)
    weight, bias = random.standard_normal((6, 4)), random.standard_normal(6)
    module = Product(torch.tensor(weight.T.reshape(4, 2, 3)))
    module.bias = torch.nn.Parameter(torch.tensor(bias.reshape(2, 3)))
    program = from_torch(WithBias(module), (torch.randn(5, 4, dtype=torch.float64),))
    infos = {"query.weight": ParameterInfo(weight, True), "query.bias": ParameterInfo(bias, True)}
    users = {parameter.value: {""} for parameter in program.parameters.values()}
    rewritten = with_rows_of_the_module(program, infos, users, lambda path: list(infos))
    assert set(rewritten.parameters) == set(infos)
    x = random.standard_normal((5, 4))
    (_, before), (_, after) = program.value_and_grad(x), rewritten.value_and_grad(x)
    np.testing.assert_allclose(after.parameters["query.bias"], before.parameters["product.bias"].reshape(6), rtol=1e-12)


class WithBias(torch.nn.Module):
    def __init__(self, product: Product) -> None:
        super().__init__()
        self.product = product

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.product(x).unflatten(-1, (2, 3)) + self.product.bias  # type: ignore[no-any-return]


def test_a_layout_that_divides_axes_exchanges_none_as_a_whole() -> None:
    heads = Layout((2, 12), (2, 3, 4), (1, 0, 2), (3, 2, 4))  # fewer axes than are permuted
    assert not heads.exchanges_axes
    assert Layout((2, 3), (2, 3), (1, 0), (3, 2)).exchanges_axes


def test_channels_that_are_all_zero_have_the_order_in_which_others_were_found() -> None:
    images = np.random.default_rng(0).standard_normal((2, 6, 3, 3))
    order = (4, 2, 5, 0, 3, 1)
    by_channels = find_layout([images.transpose(0, 2, 3, 1)[..., np.argsort(order)]], [images], in_any_order=True)
    assert by_channels is not None
    assert by_channels.order == order
    means = images.mean((2, 3))
    means[:, [1, 2, 5]] = 0
    arrays = [means[:, np.argsort(order)]]
    layout = find_layout(arrays, [means], [by_channels], in_any_order=True)
    assert layout is not None
    assert layout.order == order
    unlike = [means[:, np.argsort(order)[::-1]]]
    layout = find_layout(unlike, [means], [by_channels], in_any_order=True)
    assert layout is None or layout.reads(unlike, [means])
    assert layout is None or layout.order != order
