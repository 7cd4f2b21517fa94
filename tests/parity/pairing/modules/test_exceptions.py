"""A candidate that raises where the reference runs fails in the Cell that raised; the others are judged on."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.parity.results.comparison import PASS
from cellbridge.runtime.errors import UsageError
from tests.parity.pairing.modules.networks import X, network


def raises(self: Any, x: Tensor) -> Tensor:
    raise ValueError("no such thing")


def transposes(self: Any, x: Tensor) -> Tensor:
    return x + self.down(self.act(self.up(self.norm(x).mT)))


def is_longer(self: Any, x: Tensor) -> Tensor:
    return torch.cat([x, x], 1) * 2


def needs_five(self: Any, x: Tensor) -> Tensor:
    return self.head(self.blocks(x).unflatten(1, (5, 1)).mean((1, 2)))


def takes_any(self: Any, x: Tensor) -> Tensor:
    return self.head(self.blocks(x).mean(1))


class BackwardRaises(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        raise RuntimeError("no way back")


def raises_in_backward(self: Any, x: Tensor) -> Tensor:
    return nn.functional.layer_norm(BackwardRaises.apply(x), (4,), self.weight, self.bias)


def calls(report: Any, path: str) -> list[str]:
    return [c.reason for c in report.cells[path].failures if c.kind == "call"]


@pytest.mark.parametrize("path", ["root", "blocks_0", "blocks_1", "blocks_1_norm", "head"])
@pytest.mark.every(6)
def test_a_cell_that_raises_fails_and_no_other(path: str) -> None:
    report = parity.compare(network(), network(**{path: raises}), (X,))
    failing = "" if path == "root" else path.replace("_", ".")
    assert report.failing == [failing]
    assert not report.ok
    assert set(calls(report, failing)) == {"raises ValueError: no such thing"}
    assert 'raise ValueError("no such thing")' in report.cells[failing].failures[0].source


def test_a_fault_beside_a_cell_that_raises_is_found() -> None:
    candidate = network(blocks_0=raises)
    candidate.get_submodule("blocks.1.norm").eps = 1e-3  # type: ignore[assignment]
    report = parity.compare(network(), candidate, (X,))
    assert report.failing == ["blocks.0", "blocks.1.norm"]


def test_a_cell_that_a_wrong_shape_makes_raise_is_not_accused() -> None:
    report = parity.compare(network(), network(blocks_0=transposes), (X,))
    assert report.failing == ["blocks.0"]
    assert any("mat1 and mat2" in reason for reason in calls(report, "blocks.0"))
    assert any(
        "given input of shape [3, 4, 5] in the candidate" in text for text in report.cells["blocks.0"].explanations
    )


def test_a_wrong_shape_that_makes_a_later_cell_raise_is_named_alone() -> None:
    reference = network(root=takes_any)
    report = parity.compare(reference, network(root=needs_five, blocks_1_act=is_longer), (X,))
    assert report.failing == ["blocks.1.act"]


def test_a_backward_that_raises_fails_in_its_cell() -> None:
    report = parity.compare(network(), network(blocks_1_norm=raises_in_backward), (X,))
    assert report.failing == ["blocks.1.norm"]
    assert any("no way back in its backward pass" in reason for reason in calls(report, "blocks.1.norm"))
    assert {c.status for c in report.cells["blocks.1.norm"].outputs} == {PASS}
    assert parity.compare(network(), network(blocks_1_norm=raises_in_backward), (X,), grads=False).ok


def test_a_reference_that_raises_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="no such thing"):
        parity.compare(network(blocks_0=raises), network(), (X,))


def test_a_network_is_left_as_it_was() -> None:
    candidate = network(blocks_0=raises)
    tied = candidate.get_submodule("blocks.1.norm")
    candidate.get_submodule("blocks.0.norm").weight = tied.weight  # shared, and replaced in a run
    reference = network()
    reference.get_submodule("blocks.0.norm").weight = reference.get_submodule("blocks.1.norm").weight
    parameters = dict(candidate.named_parameters(remove_duplicate=False))
    parity.compare(reference, candidate, (X,))
    after = dict(candidate.named_parameters(remove_duplicate=False))
    assert all(after[name] is parameter for name, parameter in parameters.items())
    assert "forward" not in vars(candidate.get_submodule("blocks.1"))
