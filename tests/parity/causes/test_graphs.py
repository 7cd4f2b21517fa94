"""Graphs in which a port forgets the edges of nodes to themselves."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.parity.results.cause import Cause

pytestmark = pytest.mark.causes

Step = Callable[[Tensor, Tensor], Tensor]
X = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
EDGES = torch.tensor([[0, 1, 2, 3, 4, 2], [1, 2, 0, 4, 3, 4]])


class Network(nn.Module):
    def __init__(self, step: Step) -> None:
        super().__init__()
        self._step = step

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        return self._step(x, edges)


def by_edges(x: Tensor, edges: Tensor) -> Tensor:
    """The mean of what a node has and what its neighbours have, over a list of edges."""
    loops = torch.arange(5)
    source, target = torch.cat([edges[0], loops]), torch.cat([edges[1], loops])
    degree = torch.zeros(5).index_add(0, target, torch.ones(11))
    return torch.zeros(5, 3).index_add(0, target, x[source]) / degree[:, None]


def by_matrix(loops: float = 1.0, scale: float = 1.0) -> Step:
    """The same by a matrix."""

    def step(x: Tensor, edges: Tensor) -> Tensor:
        graph = torch.zeros(5, 5)
        graph[edges[1], edges[0]] = 1.0
        if loops:
            graph = graph + torch.eye(5)
        return scale * (graph @ x) / graph.sum(1, keepdim=True)

    return step


def causes(reference: Step, candidate: Step) -> list[Cause]:
    return parity.compare(Network(reference), Network(candidate), (X, EDGES), probe=False).cells[""].causes


def test_missing_self_loops_are_told_between_a_list_and_a_matrix() -> None:
    (cause,) = causes(by_edges, by_matrix(loops=0.0))
    assert cause.summary.endswith("is 0 in the candidate, 1 in the reference: the edges of nodes to themselves")
    assert cause.in_candidate
    assert cause.error < 1e-11


def test_another_mistake_is_not_called_a_self_loop() -> None:
    assert not any("to themselves" in cause.summary for cause in causes(by_edges, by_matrix(scale=0.5)))


def test_a_list_is_a_matrix() -> None:
    assert parity.compare(Network(by_edges), Network(by_matrix()), (X, EDGES), probe=False).ok
