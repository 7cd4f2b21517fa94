"""`torch.compile`, `DataParallel`: the wrapped module is compared Cell by Cell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cellbridge import converter, parity

X = torch.linspace(-2.0, 2.0, 12).reshape(3, 4).sin()


class Network(nn.Module):
    def __init__(self, eps: float = 1e-5) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body: Any = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4, eps=eps))
        self.head: Any = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))


class Reaching(Network):
    """Calls what its DataParallel holds."""

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body.module(x))


def part_compiled(network: Network) -> nn.Module:
    network.body[1] = torch.compile(network.body[1])
    network.head = nn.DataParallel(network.head)
    return network


def in_place(network: Network) -> nn.Module:
    network.compile()
    network.head.compile()
    return network


WRAPPED: dict[str, Callable[[Network], Any]] = {
    "compiled": torch.compile,
    "in parallel": nn.DataParallel,
    "compiled in parallel": lambda network: nn.DataParallel(torch.compile(network)),
    "parts": part_compiled,
    "in place": in_place,
}


@pytest.mark.parametrize("how", WRAPPED)
@pytest.mark.every(6)
def test_a_wrapped_module_is_compared_cell_by_cell(how: str) -> None:
    wrapped = WRAPPED[how](Network())
    names = list(wrapped.state_dict())
    for reference, candidate in ((Network(), wrapped), (wrapped, Network())):
        report = parity.compare(reference, candidate, (X,))
        assert report.ok, str(report)
        assert list(report.cells) == ["", "body", "body.0", "body.1", "head"]
    assert parity.check(wrapped, (X,)).ok
    assert list(converter.from_torch(wrapped, (X,)).parameters) == list(Network().state_dict())
    assert list(wrapped.state_dict()) == names  # left as it was


@pytest.mark.parametrize("how", WRAPPED)
@pytest.mark.every(3)
def test_a_fault_inside_is_found_in_its_cell(how: str) -> None:
    report = parity.compare(Network(), WRAPPED[how](Network(eps=1e-4)), (X,))
    assert report.cells["body.1"].status == "fail"
    assert not any(c.feeding == "isolated" for c in report.cells["body.0"].failures)


def test_code_that_reaches_into_a_wrapper() -> None:
    network = Reaching()
    network.body = nn.DataParallel(network.body)
    report = parity.compare(Network(), network, (X,))
    assert report.ok, str(report)
    assert not hasattr(network.body.module, "module")
