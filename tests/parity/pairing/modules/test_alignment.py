"""A Cell that the candidate doesn't call as the reference does is judged in the Cell around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.parity.results.comparison import PASS, UNPAIRED
from cellbridge.parity.results.structure import ADDITIONAL_CELL, CALLED_DIFFERENTLY, NOT_CALLED
from tests.parity.pairing.modules.networks import X, network

functional = nn.functional
Forward = Callable[..., Any]


def norm_left_out(self: Any, x: Tensor) -> Tensor:
    return x + self.down(self.act(self.up(x)))


def norm_inlined(self: Any, x: Tensor) -> Tensor:
    y = functional.layer_norm(x, (4,), self.norm.weight, self.norm.bias, 1e-5)
    return x + self.down(self.act(self.up(y)))


def norm_inlined_with_another_eps(self: Any, x: Tensor) -> Tensor:
    y = functional.layer_norm(x, (4,), self.norm.weight, self.norm.bias, 1e-4)
    return x + self.down(self.act(self.up(y)))


def weight_detached(self: Any, x: Tensor) -> Tensor:
    y = functional.linear(self.norm(x), self.up.weight.detach(), self.up.bias)
    return x + self.down(self.act(y))


def branch_detached(self: Any, x: Tensor) -> Tensor:
    y = functional.tanh(self.up(self.norm(x).detach()))
    return x + self.down(y)


def activation_called_twice(self: Any, x: Tensor) -> Tensor:
    return x + self.down(self.act(self.act(self.up(self.norm(x)))))


def activation_called_again_for_the_same(self: Any, x: Tensor) -> Tensor:
    y = self.up(self.norm(x))
    return x + self.down((self.act(y) + self.act(y)) / 2)


def blocks_called_in_turn(self: Any, x: Tensor) -> Tensor:
    return self.head(self.blocks[1](self.blocks[0](x)).mean(1))


def blocks_exchanged(self: Any, x: Tensor) -> Tensor:
    return self.head(self.blocks[0](self.blocks[1](x)).mean(1))


def first_block_called_twice(self: Any, x: Tensor) -> Tensor:
    return self.head(self.blocks[0](self.blocks[0](x)).mean(1))


def head_before_the_mean(self: Any, x: Tensor) -> Tensor:
    return self.head(self.blocks(x)).mean(1)


def head_of_the_first(self: Any, x: Tensor) -> Tensor:
    return self.head(self.blocks(x))[:, 0]


def fails_in(paths: list[str], **forwards: Forward) -> Any:
    report = parity.compare(network(), network(**forwards), (X,))
    assert report.failing == paths
    assert report.ok is (not paths)
    return report


@pytest.mark.parametrize(
    ("path", "forward", "cells"),
    [
        ("blocks_0", norm_inlined, {"blocks.0.norm": NOT_CALLED}),
        ("blocks_1", norm_inlined, {"blocks.1.norm": NOT_CALLED}),
        ("blocks_0", activation_called_again_for_the_same, {"blocks.0.act": CALLED_DIFFERENTLY}),
        ("root", blocks_called_in_turn, {"blocks": NOT_CALLED}),
        ("root", head_before_the_mean, {"head": CALLED_DIFFERENTLY}),
    ],
)
@pytest.mark.every(3)
def test_another_structure_of_the_same_function_holds(path: str, forward: Forward, cells: dict[str, str]) -> None:
    report = fails_in([], **{path: forward})
    assert {difference.name: difference.kind for difference in report.structure} == cells
    (difference,) = report.structure
    around = report.cells[difference.around]
    assert difference.name.startswith(around.path)
    assert around.status == PASS
    if difference.name in report.cells:
        assert report.cells[difference.name].status == UNPAIRED
    assert difference.text in " ".join(str(report).replace("structure: ", "").split())


def test_gradients_of_a_cell_that_is_inlined_are_compared_around_it() -> None:
    report = fails_in([], blocks_0=norm_inlined)
    compared = {c.tensor for c in report.cells["blocks.0"].comparisons if c.kind == "parameter gradient"}
    assert compared == {"blocks.0.norm.weight", "blocks.0.norm.bias"}


@pytest.mark.parametrize(
    ("path", "forward", "failing"),
    [
        ("blocks_0", norm_left_out, "blocks.0"),
        ("blocks_1", norm_left_out, "blocks.1"),
        ("blocks_1", norm_inlined_with_another_eps, "blocks.1"),
        ("blocks_0", weight_detached, "blocks.0"),
        ("blocks_0", branch_detached, "blocks.0"),
        ("blocks_0", activation_called_twice, "blocks.0"),
        ("root", blocks_exchanged, ""),
        ("root", first_block_called_twice, ""),
        ("root", head_of_the_first, ""),
    ],
)
@pytest.mark.every(9)
def test_a_fault_is_placed_in_the_cell_around_alone(path: str, forward: Forward, failing: str) -> None:
    report = fails_in([failing], **{path: forward})
    for difference in report.structure:
        assert difference.text in report.cells[failing].explanations


def test_a_wrong_weight_in_a_cell_that_is_inlined_is_found() -> None:
    candidate = network(blocks_0=norm_inlined)
    with torch.no_grad():
        candidate.get_parameter("blocks.0.norm.weight").mul_(1.001)
    report = parity.compare(network(), candidate, (X,))
    assert report.failing == ["blocks.0"]


def test_a_frozen_weight_in_a_cell_that_is_inlined_is_found() -> None:
    candidate = network(blocks_0=norm_inlined)
    candidate.get_parameter("blocks.0.norm.weight").requires_grad_(False)
    assert parity.compare(network(), candidate, (X,)).failing == ["blocks.0"]


def test_the_other_cells_of_a_wrong_network_are_still_judged_alone() -> None:
    candidate = network(blocks_0=norm_inlined)
    candidate.get_submodule("blocks.1.norm").eps = 1e-3  # type: ignore[assignment]
    assert parity.compare(network(), candidate, (X,)).failing == ["blocks.1.norm"]


def test_a_cell_that_only_the_candidate_calls_is_named() -> None:
    candidate = network()
    candidate.head = nn.Sequential(nn.Identity(), candidate.head)
    reference = network()
    reference.head = nn.Sequential(nn.Dropout(0.0), reference.head)
    reference.head.forward = reference.head[1].forward
    report = parity.compare(reference, candidate, (X,))
    assert report.ok
    assert {(d.name, d.kind) for d in report.structure} == {
        ("head.0", ADDITIONAL_CELL),
        ("head.1", ADDITIONAL_CELL),
    }


class Sum(nn.Module):
    """Adds its inputs, or forgets the second."""

    forgets = False

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return 2 * x if self.forgets else x + y


def summing(forgets: bool) -> nn.Module:
    module = network()
    module.sum = Sum()
    module.sum.forgets = forgets

    def forward(self: Any, x: Tensor) -> Tensor:
        return self.head(self.sum(self.blocks[0](x), self.blocks[1](x)).mean(1))

    module.forward = forward.__get__(module)
    return module


def test_an_input_that_a_cell_forgets_is_no_fault_of_its_caller() -> None:
    report = parity.compare(summing(False), summing(True), (X,))
    assert report.failing == ["sum"]
    reasons = {c.reason for c in report.cells["sum"].failures if (c.kind, c.tensor) == ("input gradient", "y")}
    assert reasons == {"no gradient arrives, the reference has one"}
