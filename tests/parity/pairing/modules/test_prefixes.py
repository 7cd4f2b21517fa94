"""Modules inside wrappers are paired by their names without the wrappers' prefix."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.parity.pairing.modules.prefixes import Prefixes
from cellbridge.parity.results.comparison import PASS
from cellbridge.parity.results.structure import PREFIX
from cellbridge.runtime.errors import UsageError
from tests.parity.pairing.modules.networks import X, network


class Wrapper(nn.Module):
    """A network under a name; `scale` is a fault in the wrapper's own code."""

    def __init__(self, inner: nn.Module, name: str, scale: float = 1.0) -> None:
        super().__init__()
        self.name, self.scale = name, scale
        self.add_module(name, inner)

    def forward(self, x: Tensor) -> Tensor:
        y = self.get_submodule(self.name)(x)
        return y if self.scale == 1 else y * self.scale


PAIRS: dict[str, tuple[Any, Any]] = {
    "module.": (network, lambda: Wrapper(network(), "module")),
    "backbone.": (network, lambda: Wrapper(network(), "backbone")),
    "module.model.": (network, lambda: Wrapper(Wrapper(network(), "model"), "module")),
    "model. in the reference": (lambda: Wrapper(network(), "model"), network),
    "two": (lambda: Wrapper(network(), "model"), lambda: Wrapper(network(), "net")),
    "one in the other": (lambda: Wrapper(network(), "model"), lambda: Wrapper(Wrapper(network(), "model"), "module")),
    "a name of the network": (network, lambda: Wrapper(network(), "head")),
}


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.every(6)
def test_a_wrapper_holds_and_every_cell_is_compared(pair: str) -> None:
    reference, candidate = (make() for make in PAIRS[pair])
    names = list(candidate.state_dict())
    report = parity.compare(reference, candidate, (X,))
    assert report.ok, report
    assert [difference.kind for difference in report.structure] == [PREFIX]
    passing = [path for path, cell in report.cells.items() if cell.status == PASS]
    assert len(passing) >= len(list(network().modules()))
    assert list(candidate.state_dict()) == names
    assert "_program_names" not in vars(candidate)


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.every(6)
def test_a_fault_inside_is_placed(pair: str) -> None:
    reference, candidate = (make() for make in PAIRS[pair])
    norm = next(inner for path, inner in candidate.named_modules() if path.endswith("blocks.1.norm"))
    norm.eps = 1e-3
    report = parity.compare(reference, candidate, (X,))
    (failing,) = report.failing
    assert reference.get_submodule(failing) is next(
        inner for path, inner in reference.named_modules() if path.endswith("blocks.1.norm")
    )


@pytest.mark.causes
def test_the_cause_of_a_fault_inside_is_named() -> None:
    candidate = Wrapper(network(), "module")
    candidate.get_submodule("module.blocks.1.norm").eps = 1e-3
    report = parity.compare(network(), candidate, (X,))
    assert [cause.attribute for cause in report.cells["blocks.1.norm"].causes] == ["eps"]


def test_a_wrong_weight_inside_is_placed() -> None:
    candidate = Wrapper(network(), "module")
    with torch.no_grad():
        candidate.get_parameter("module.blocks.1.up.weight").mul_(1.001)
    assert parity.compare(network(), candidate, (X,)).failing == ["blocks.1.up"]


def test_a_wrapper_that_computes_something_is_wrong_itself() -> None:
    report = parity.compare(network(), Wrapper(network(), "module", 1.001), (X,))
    assert report.failing == [""]


def test_networks_of_one_structure_have_no_prefix() -> None:
    assert Prefixes.between(network(), network()) == Prefixes()
    assert Prefixes.between(nn.Sequential(nn.Linear(2, 2)), nn.Sequential(nn.Linear(2, 2))) == Prefixes()


def test_a_parameter_of_the_wrapper_keeps_its_name() -> None:
    candidate = Wrapper(network(), "module")
    candidate.extra = nn.Parameter(torch.ones(1))
    report = parity.compare(network(), candidate, (X,))
    assert report.ok
    assert {difference.name for difference in report.structure} == {"module.", "extra"}


class Renamed(nn.Module):
    """The network with other names."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.body, self.classifier = inner.blocks, inner.head

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.body(x).mean(1))


@pytest.mark.slow
def test_cells_of_other_names_are_paired_as_given() -> None:
    cells = {"body": "blocks", "classifier": "head"}
    report = parity.compare(network(), Renamed(network()), (X,), cells=cells)
    assert report.ok
    assert not report.structure
    assert {cell.status for cell in report.cells.values()} == {PASS}
    candidate = Renamed(network())
    candidate.body[1].norm.eps = 1e-3
    assert parity.compare(network(), candidate, (X,), cells=cells).failing == ["blocks.1.norm"]


def test_a_star_stands_for_the_same_text_on_both_sides() -> None:
    reference, candidate = network(), Renamed(network())
    cells = {"body.*": "blocks.*", "classifier": "head"}
    given = Prefixes.between(reference, candidate, cells).given
    assert given == {"body.0": "blocks.0", "body.1": "blocks.1", "classifier": "head"}
    candidate.body[1].norm.eps = 1e-3
    report = parity.compare(reference, candidate, (X,), cells=cells, diagnose_seconds=0)
    assert report.failing == ["blocks.1.norm"]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"none.*": "blocks.*"}, r"'none.\*', which no Cell matches"),
        ({"blocks.*": "body.*"}, r"is the wrong way round: .*, cells={'body.\*': 'blocks.\*'}"),
        ({"body.*": "none.*"}, "'none.0', which isn't a Cell inside the reference"),
        ({"body.*": "blocks.*.*"}, r"has more `\*` than 'body.\*'"),
        ({"body": "blocks.*"}, r"each `\*` stands for a text"),
        ({"none": "blocks"}, "'none', which isn't a Cell inside the candidate"),
        ({"body": "none"}, "'none', which isn't a Cell inside the reference"),
        ({"body": ""}, "'', which isn't a Cell inside the reference"),
        ({"body": "blocks", "classifier": "blocks"}, "the same name"),
    ],
)
def test_cells_that_do_not_fit_are_refused(cells: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parity.compare(network(), Renamed(network()), (X,), cells=cells)
