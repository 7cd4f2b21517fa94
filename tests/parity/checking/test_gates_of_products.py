"""Two gated tensors that a port computes at once: each of their layers is compared by itself."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cellbridge import parity

WIDTH, WIDE = 8, 6


class Gated(nn.Module):
    """Multiplies two gated tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.a_gate, self.b, self.b_gate = (nn.Linear(WIDTH, WIDE, bias=False) for _ in range(4))
        self.sigmoid, self.out = nn.Sigmoid(), nn.Linear(5, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.sigmoid(self.a_gate(x)) * self.a(x), self.sigmoid(self.b_gate(x)) * self.b(x)
        result: Tensor = self.out(a @ b.transpose(1, 2))
        return result


class FusedGates(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.both, self.the_out = nn.Linear(WIDTH, 4 * WIDE, bias=False), nn.Linear(5, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        values, gates = self.both(x).chunk(2, dim=-1)
        a, b = (values * gates.sigmoid()).chunk(2, dim=-1)
        result: Tensor = self.the_out(torch.einsum("bid,bjd->bij", a, b))
        return result


def test_gates_of_two_products_at_once() -> None:
    torch.manual_seed(0)
    reference, port = Gated().eval(), FusedGates().eval()
    layers = [reference.a, reference.b, reference.a_gate, reference.b_gate]
    port.both.weight.data = torch.cat([layer.weight.data for layer in layers])
    port.the_out.load_state_dict(reference.out.state_dict())
    report = parity.compare(reference, port, (torch.randn(2, 5, WIDTH),), probe=False)
    assert {report.cells[name].status for name, _ in reference.named_children()} == {"pass"}
