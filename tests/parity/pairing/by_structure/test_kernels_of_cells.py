"""Recurrent cells of other libraries, with other kernels, gates and biases, against those of torch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cellbridge.parity.pairing.by_structure.loading import load_by_structure
from cellbridge.parity.pairing.by_structure.ports import ModulePort
from tests.parity.pairing.by_structure.networks import drawn

SIZE, STATE = 3, 2


class Torch(nn.Module):
    """The second cell's data are as wide as data and state of the first one."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LSTMCell(SIZE, STATE), nn.LSTMCell(SIZE + STATE, STATE)
        self.out = nn.Linear(STATE, SIZE)

    def forward(self, x: Tensor) -> Tensor:
        h = c = x.new_zeros(len(x), STATE)
        for word in x.unbind(1):
            h, c = self.first(word, (h, c))
        attention = h.sin()
        for word in x.unbind(1):
            h, c = self.second(torch.cat([word, attention], 1), (h, c))
            attention = h.sin()
        result: Tensor = self.out(attention)
        return result


class OneKernel(nn.Module):
    """Gates i, j, f and o, and 1 added to f."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.kernel, self.bias = (
            nn.Parameter(torch.zeros(size + STATE, 4 * STATE)),
            nn.Parameter(torch.zeros(4 * STATE)),
        )

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        h, c = state
        i, j, f, o = (torch.cat([x, h], 1) @ self.kernel + self.bias).chunk(4, 1)
        c = c * torch.sigmoid(f + 1.0) + torch.sigmoid(i) * torch.tanh(j)
        return torch.tanh(c) * torch.sigmoid(o), c


class Kernels(Torch):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = OneKernel(SIZE), OneKernel(SIZE + STATE)


def test_gates_of_joined_data_are_found_where_a_number_is_added_to_one() -> None:
    reference, candidate = drawn(Torch(), 0), drawn(Kernels(), 1)
    arrays = load_by_structure(reference, ModulePort(candidate), (torch.randn(2, 3, SIZE),), {}).arrays
    weights = reference.state_dict()
    order = torch.cat([torch.arange(STATE) + STATE * gate for gate in (0, 2, 1, 3)])  # torch's gates are i, f, g, o
    for cell in ("first", "second"):
        kernel = torch.cat([weights[f"{cell}.weight_ih"], weights[f"{cell}.weight_hh"]], 1)
        assert torch.equal(torch.as_tensor(arrays[f"{cell}.kernel"]), kernel[order].T)
        bias = weights[f"{cell}.bias_ih"] + weights[f"{cell}.bias_hh"]
        bias[STATE : 2 * STATE] -= 1
        torch.testing.assert_close(torch.as_tensor(arrays[f"{cell}.bias"]), bias[order])


class BothWays(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(SIZE, STATE, batch_first=True, bidirectional=True)
        self.score = nn.Linear(2 * STATE, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.gru(x)
        result: Tensor = self.score(states.sin())[..., 0].softmax(1)
        return result


class KerasGRU(nn.Module):
    """Gates z, r and h."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel, self.recurrent = (nn.Parameter(torch.zeros(size, 3 * STATE)) for size in (SIZE, STATE))
        self.bias = nn.Parameter(torch.zeros(2, 3 * STATE))

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        x_z, x_r, x_h = (x @ self.kernel + self.bias[0]).chunk(3, 1)
        h_z, h_r, h_h = (h @ self.recurrent + self.bias[1]).chunk(3, 1)
        z = torch.sigmoid(x_z + h_z)
        return z * h + (1 - z) * torch.tanh(x_h + torch.sigmoid(x_r + h_r) * h_h)


class KerasBothWays(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ahead, self.back, self.score = KerasGRU(), KerasGRU(), nn.Parameter(torch.zeros(2 * STATE))

    def forward(self, x: Tensor) -> Tensor:
        ahead = back = x.new_zeros(len(x), STATE)
        left: list[Tensor] = []
        right: list[Tensor] = []
        for t in range(x.shape[1]):
            ahead, back = self.ahead(x[:, t], ahead), self.back(x[:, -1 - t], back)
            left, right = [*left, ahead], [back, *right]
        states = torch.cat([torch.stack(left, 1), torch.stack(right, 1)], 2)
        return (states.sin() @ self.score).softmax(1)


def test_gates_for_resetting_and_updating_are_told_apart_by_what_uses_them() -> None:
    reference, candidate = drawn(BothWays(), 0), drawn(KerasBothWays(), 1)
    arrays = load_by_structure(reference, ModulePort(candidate), (torch.randn(2, 3, SIZE),), {}).arrays
    weights = reference.state_dict()
    order = torch.cat([torch.arange(STATE) + STATE * gate for gate in (1, 0, 2)])  # torch's gates are r, z, n
    for cell, suffix in (("ahead", "l0"), ("back", "l0_reverse")):
        for name, of in (("kernel", "ih"), ("recurrent", "hh")):
            assert torch.equal(torch.as_tensor(arrays[f"{cell}.{name}"]), weights[f"gru.weight_{of}_{suffix}"][order].T)
        biases = torch.stack([weights[f"gru.bias_{of}_{suffix}"][order] for of in ("ih", "hh")])
        assert torch.equal(torch.as_tensor(arrays[f"{cell}.bias"]), biases)
    assert torch.equal(torch.as_tensor(arrays["score"]), weights["score.weight"][0])
