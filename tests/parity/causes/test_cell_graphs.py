"""The graph of a failing Cell: the nodes of its program, and the one that a proved cause names."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn

from cellbridge import parity
from cellbridge.parity.causes.cell_graphs import MAX_NODES
from cellbridge.parity.results.cell_graph import CellGraph, GraphNode

pytestmark = pytest.mark.causes


class Gated(nn.Module):
    """A Cell with ops of its own around another one, whose forward can be wrong in several ways."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.norm = nn.LayerNorm(6)
        self.weight = nn.Parameter(torch.randn(6, 6))
        self.register_buffer("scale", torch.rand(6) + 1)
        self._fault = ""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(x)
        gate = torch.sigmoid(h @ self.weight)
        if self._fault == "tanh":
            gate = torch.tanh(gate)
        if self._fault == "swapped":
            return h - gate * self.scale
        return gate * self.scale - (h * 3.0 if self._fault == "number" else h * 2.0)


class Opaque(nn.Module):
    """A Cell that can't be read as a program, since it computes in NumPy."""

    def __init__(self, eps: float) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(6)), nn.Parameter(torch.zeros(6))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if float(x.detach().numpy().sum()) == 0.125:
            return x
        return nn.functional.layer_norm(x, (6,), self.weight, self.bias, self.eps)


def graph_of(reference: nn.Module, change: Callable[[nn.Module], object], path: str = "") -> CellGraph:
    candidate = copy.deepcopy(reference)
    change(candidate)
    report = parity.compare(reference, candidate, (torch.randn(3, 6, generator=torch.manual_seed(1)),))
    assert report.failing == [path]
    graph = report.cells[path].graph
    assert graph is not None
    return graph


def marked(graph: CellGraph) -> list[GraphNode]:
    return [graph.nodes[position] for position in graph.marked]


def set_fault(fault: str) -> Callable[[nn.Module], object]:
    return lambda module: setattr(module, "_fault", fault)


def test_the_nodes_are_the_cells_own_and_their_operands_come_first() -> None:
    graph = graph_of(Gated(), set_fault("number"))
    names = [(node.kind, node.name) for node in graph.nodes]
    assert [name for kind, name in names if kind == "op"] == ["matmul", "sigmoid", "mul", "mul", "sub"]
    assert {"result of a Cell", "parameter", "buffer", "constant", "passed value", "output"} <= {k for k, _ in names}
    assert ("result of a Cell", "norm result") in names
    sub = next(node for node in graph.nodes if node.name == "sub")
    assert [graph.nodes[operand].name for operand in sub.operands] == ["mul", "mul"]
    assert sub.type == "float64[3, 6]"
    assert "test_cell_graphs.py" in sub.source
    assert all(operand < i for i, node in enumerate(graph.nodes) for operand in node.operands)


def test_a_number_is_marked() -> None:
    (node,) = marked(graph_of(Gated(), set_fault("number")))
    assert (node.kind, node.name, node.difference) == ("constant", "2", "in the candidate 3")


def test_an_attribute_is_marked() -> None:
    def change(module: nn.Module) -> None:
        assert isinstance(module, Gated)
        module.norm.eps = 0.01

    (node,) = marked(graph_of(Gated(), change, "norm"))
    assert (node.kind, node.name, node.difference) == ("op", "layer_norm", "eps=1e-05, in the candidate 0.01")
    assert ("eps", "1e-05") in node.attributes


def test_a_weight_is_marked() -> None:
    def change(module: nn.Module) -> None:
        assert isinstance(module, Gated)
        module.weight = nn.Parameter(module.weight.detach().T.contiguous())

    (node,) = marked(graph_of(Gated(), change))
    assert (node.kind, node.name, node.difference) == ("parameter", "weight", "other values in the candidate")


def test_a_node_that_only_the_candidate_has_is_added_between_its_neighbours() -> None:
    graph = graph_of(Gated(), set_fault("tanh"))
    (node,) = marked(graph)
    assert node.in_candidate_alone
    assert (node.name, [graph.nodes[operand].name for operand in node.operands]) == ("tanh", ["sigmoid"])
    users = [user for user in graph.nodes if graph.marked[0] in user.candidate_operands]
    assert [user.name for user in users] == ["mul"]


def test_other_operands_are_marked_with_what_the_candidate_uses() -> None:
    graph = graph_of(Gated(), set_fault("swapped"))
    assert marked(graph)
    assert any("candidate" in node.difference for node in marked(graph))


def test_a_candidate_that_is_no_program_is_marked_from_the_proved_change() -> None:
    reference, candidate = nn.LayerNorm(6), Opaque(0.05)
    report = parity.compare(reference, candidate, (torch.randn(3, 6, generator=torch.manual_seed(1)),))
    assert report.failing == [""]
    assert any("can't be read as a program" in note for note in report.notes)
    graph = report.cells[""].graph
    assert graph is not None
    (node,) = marked(graph)
    assert node.name == "layer_norm"
    assert node.difference.startswith("eps=1e-05, in the candidate 0.05")


class Deep(nn.Module):
    """A Cell with many ops of its own, of which one can be wrong."""

    def __init__(self) -> None:
        super().__init__()
        self._place = -1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i in range(80):
            x = torch.sin(x) * (3.0 if i == self._place else 2.0)
        return x


@pytest.mark.slow
def test_a_large_program_is_cut_to_the_neighbourhood_of_the_difference() -> None:
    graph = graph_of(Deep(), lambda module: setattr(module, "_place", 40))
    assert len(graph.nodes) == MAX_NODES
    assert graph.left_out == 80 * 3 + 2 - MAX_NODES
    (node,) = marked(graph)
    assert (node.name, node.difference) == ("2", "in the candidate 3")
    assert all(operand < i for i, node in enumerate(graph.nodes) for operand in node.operands)
    assert graph.to_dict()["nodes"][graph.marked[0]]["difference"] == "in the candidate 3"


class Strange(nn.Module):
    """A Cell that can't be read as a program, and computes nothing that a single change of another would give."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if float(x.detach().numpy().sum()) == 0.125:
            return x
        return torch.cos(x * x.abs().sqrt() + torch.arange(6))


def test_a_large_program_without_a_proved_cause_is_left_out() -> None:
    x = torch.randn(3, 6, generator=torch.manual_seed(1))
    report = parity.compare(Deep(), Strange(), (x,), diagnose_seconds=1)
    assert report.cells[""].causes == []
    assert report.cells[""].graph == CellGraph((), left_out=80 * 3 + 2)
