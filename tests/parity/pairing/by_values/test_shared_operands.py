"""Ports that multiply the parts of a joined tensor one by one, also for several joined tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cellbridge import parity
from cellbridge.parity.report.report import Report
from cellbridge.parity.results.comparison import SKIPPED

WIDTH = 4
EDGES = torch.tensor([[0, 1, 2, 2, 1], [1, 2, 0, 1, 0]])


def compared(reference: nn.Module, candidate: nn.Module, *arguments: Tensor) -> Report:
    torch.manual_seed(0)
    for parameter in reference.parameters():
        nn.init.normal_(parameter, std=0.5)
    candidate.port(reference)  # type: ignore[operator]
    return parity.compare(reference, candidate, arguments, probe=False)


def judged(report: Report) -> set[str]:
    """The Cells of which an output was compared, and the parameters of which the gradient was."""
    comparisons = [(path, c) for path, cell in report.cells.items() for c in cell.comparisons]
    outputs = {path for path, c in comparisons if c.kind == "output"}
    return outputs | {c.tensor for _, c in comparisons if c.kind == "parameter gradient" and c.status != SKIPPED}


class Messages(nn.Module):
    """Multiplies what is known of each edge: its two nodes, and a distance."""

    def __init__(self) -> None:
        super().__init__()
        self.edge, self.out = nn.Linear(2 * WIDTH + 1, WIDTH), nn.Linear(WIDTH, 3)

    def forward(self, nodes: Tensor, places: Tensor, edges: Tensor) -> Tensor:
        of, to = edges
        distance = (places[of] - places[to]).square().sum(1, keepdim=True)
        return self.out(self.edge(torch.cat([nodes[of], nodes[to], distance], dim=1)).relu())  # type: ignore[no-any-return]


class NodesFirst(nn.Module):
    """Multiplies nodes before it takes those of the edges."""

    def __init__(self) -> None:
        super().__init__()
        self.sender, self.receiver, self.last = (
            nn.Linear(WIDTH, WIDTH),
            nn.Linear(WIDTH, WIDTH, bias=False),
            nn.Linear(WIDTH, 3),
        )
        self.far = nn.Parameter(torch.zeros(WIDTH))

    def port(self, like: Any) -> None:
        of, to, far = like.edge.weight.detach().split((WIDTH, WIDTH, 1), dim=1)
        self.sender.weight.data, self.sender.bias.data, self.receiver.weight.data = of, like.edge.bias.data.clone(), to
        self.far.data = far[:, 0]
        self.last.load_state_dict(like.out.state_dict())

    def forward(self, nodes: Tensor, places: Tensor, edges: Tensor) -> Tensor:
        of, to = edges
        apart = places[of] - places[to]
        y = self.sender(nodes)[of] + self.receiver(nodes)[to] + (apart * apart).sum(1, keepdim=True) * self.far
        return self.last(F.relu(y))  # type: ignore[no-any-return]


def test_rows_may_be_taken_of_a_product() -> None:
    report = compared(Messages(), NodesFirst(), torch.randn(3, WIDTH), torch.randn(3, 2), EDGES)
    assert report.ok, str(report)
    assert {"edge", "edge.weight", "edge.bias", "out"} <= judged(report)


class Gates(nn.Module):
    """A step of a recurrence whose gates are given what is seen beside the state, or beside a part of it."""

    def __init__(self) -> None:
        super().__init__()
        self.z, self.r, self.q = (nn.Linear(2 * WIDTH + 1, WIDTH) for _ in range(3))

    def forward(self, h: Tensor, x: Tensor, y: Tensor) -> Tensor:
        x = torch.cat([x, y], dim=1)
        both = torch.cat([h, x], dim=1)
        z, r = self.z(both).sigmoid(), self.r(both).sigmoid()
        q = self.q(torch.cat([r * h, x], dim=1)).tanh()
        return (1 - z) * h + z * q  # type: ignore[no-any-return]


class FusedGates(nn.Module):
    """Multiplies what is seen, in another order, for the three gates at once, and the state apart."""

    def __init__(self) -> None:
        super().__init__()
        self.seen, self.state = nn.Linear(WIDTH + 1, 3 * WIDTH), nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.kept = nn.Linear(WIDTH, WIDTH, bias=False)

    def port(self, like: Any) -> None:
        rows = torch.cat([gate.weight.detach() for gate in (like.r, like.z, like.q)])
        h, x, y = rows.split((WIDTH, WIDTH, 1), dim=1)
        self.seen.weight.data = torch.cat((y, x), dim=1)
        self.seen.bias.data = torch.cat([gate.bias.detach() for gate in (like.r, like.z, like.q)])
        self.state.weight.data, self.kept.weight.data = h[: 2 * WIDTH], h[2 * WIDTH :]

    def forward(self, h: Tensor, x: Tensor, y: Tensor) -> Tensor:
        r, z, q = self.seen(torch.cat((y, x), dim=1)).chunk(3, dim=1)
        of_r, of_z = self.state(h).chunk(2, dim=1)
        return torch.lerp(h, torch.tanh(q + self.kept(torch.sigmoid(r + of_r) * h)), torch.sigmoid(z + of_z))


def test_a_part_may_be_multiplied_for_several_joined_tensors() -> None:
    report = compared(Gates(), FusedGates(), torch.randn(2, WIDTH), torch.randn(2, WIDTH), torch.randn(2, 1))
    assert report.ok, str(report)
    assert {f"{gate}{part}" for gate in "zrq" for part in ("", ".weight", ".bias")} <= judged(report)
