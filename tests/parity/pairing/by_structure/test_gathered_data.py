"""Messages along edges: a product with the nodes at both ends and a distance, or products with all nodes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cellbridge.parity.pairing.by_structure.loading import load_by_structure
from cellbridge.parity.pairing.by_structure.ports import ModulePort
from tests.parity.pairing.by_structure.networks import drawn

SIZE = 3


class Joined(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.message, self.out = nn.Linear(SIZE, SIZE), nn.Linear(2 * SIZE + 1, SIZE), nn.Linear(SIZE, 2)

    def forward(self, nodes: Tensor, edges: Tensor, lengths: Tensor) -> Tensor:
        nodes = self.up(nodes)
        both = torch.cat([nodes[edges[0]], nodes[edges[1]], lengths], 1)
        result: Tensor = self.out(self.message(both).tanh())
        return result


class Gathered(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.out = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, 2)
        self.receiver, self.sender = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, SIZE, bias=False)
        self.length = nn.Parameter(torch.zeros(SIZE))

    def forward(self, nodes: Tensor, edges: Tensor, lengths: Tensor) -> Tensor:
        nodes = self.up(nodes)
        sums = self.receiver(nodes)[edges[0]] + self.sender(nodes)[edges[1]] + lengths * self.length
        result: Tensor = self.out(sums.tanh())
        return result


def test_a_product_with_gathered_rows_is_found_in_products_with_all_rows() -> None:
    reference, candidate = drawn(Joined(), 0), drawn(Gathered(), 1)
    edges = torch.tensor([[0, 1, 2, 3, 0], [1, 2, 3, 0, 2]])
    args = (torch.randn(4, SIZE), edges, torch.rand(5, 1))
    arrays = load_by_structure(reference, ModulePort(candidate), args, {}).arrays
    weights = reference.state_dict()
    receiver, sender, length = weights["message.weight"].split((SIZE, SIZE, 1), 1)
    expected = {"receiver.weight": receiver, "sender.weight": sender, "length": length[:, 0]}
    expected |= {"receiver.bias": weights["message.bias"], "out.weight": weights["out.weight"]}
    for name, tensor in expected.items():
        assert torch.equal(torch.as_tensor(arrays[name]), tensor), name
