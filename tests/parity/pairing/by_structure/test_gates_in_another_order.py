"""Choices that only a later one shows to be wrong: gates that a port has in another order, and a factor at the end."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cellbridge.parity.pairing.by_structure.loading import load_by_structure
from cellbridge.parity.pairing.by_structure.ports import ModulePort
from tests.parity.pairing.by_structure.networks import drawn

SIZE, SEEN = 4, 3


class Apart(nn.Module):
    """Two steps of a gated unit, a product of the state and of what is seen for each gate."""

    def __init__(self) -> None:
        super().__init__()
        self.z1, self.r1, self.q1, self.z2, self.r2, self.q2 = (nn.Linear(SIZE + SEEN, SIZE) for _ in range(6))
        self.mask, self.flow = (nn.Sequential(nn.Linear(SIZE, 5), nn.ReLU(), nn.Linear(5, size)) for size in (7, 2))

    def forward(self, h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        for z, r, q in ((self.z1, self.r1, self.q1), (self.z2, self.r2, self.q2)):
            both = torch.cat([h, x], -1)
            update = torch.sigmoid(z(both))
            h = (1 - update) * h + update * torch.tanh(q(torch.cat([torch.sigmoid(r(both)) * h, x], -1)))
        return 0.25 * self.mask(h), self.flow(h)


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.seen, self.state = nn.Linear(SEEN, 3 * SIZE), nn.Linear(SIZE, 2 * SIZE, bias=False)
        self.kept = nn.Linear(SIZE, SIZE, bias=False)

    def forward(self, h: Tensor, x: Tensor) -> Tensor:
        reset, update, new = self.seen(x).chunk(3, -1)
        of_reset, of_update = self.state(h).chunk(2, -1)
        update = torch.sigmoid(update + of_update)
        return (1 - update) * h + update * torch.tanh(new + self.kept(torch.sigmoid(reset + of_reset) * h))


class Fused(nn.Module):
    """The reset first, and the factor in the weights."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Step(), Step()
        self.heads, self.to_flow, self.to_mask = nn.Linear(SIZE, 10), nn.Linear(5, 2), nn.Linear(5, 7)

    def forward(self, h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        flow, mask = self.heads(self.second(self.first(h, x), x)).relu().chunk(2, -1)
        return self.to_mask(mask), self.to_flow(flow)


def test_gates_are_found_in_their_order_and_an_output_with_its_factor() -> None:
    reference, candidate = drawn(Apart(), 1), drawn(Fused(), 2)
    loading = load_by_structure(reference, ModulePort(candidate), (torch.randn(2, SIZE), torch.randn(2, SEEN)), {})
    w = reference.state_dict()
    expected = {"heads.weight": torch.cat([w["flow.0.weight"], w["mask.0.weight"]])}
    expected |= {f"to_mask.{part}": 0.25 * w[f"mask.2.{part}"] for part in ("weight", "bias")}
    for number, to in ((1, "first"), (2, "second")):
        r, z, q = (w[f"{gate}{number}.weight"] for gate in "rzq")
        expected[f"{to}.seen.weight"] = torch.cat([r, z, q])[:, SIZE:]
        expected[f"{to}.state.weight"] = torch.cat([r, z])[:, :SIZE]
        expected[f"{to}.kept.weight"] = q[:, :SIZE]
    for name, tensor in expected.items():
        torch.testing.assert_close(torch.from_numpy(loading.arrays[name]), tensor, msg=name)
