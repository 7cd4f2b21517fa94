"""Parity of modules whose parameters, buffers, Cell inputs and outputs are complex."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from cellbridge import converter, parity


class Rotation(nn.Module):
    """Rotary position embedding by complex numbers."""

    def __init__(self, size: int, steps: int) -> None:
        super().__init__()
        angles = torch.outer(torch.arange(steps), 0.5 ** torch.arange(size // 2))
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles))

    def forward(self, x: Tensor) -> Tensor:
        numbers = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        return numbers * self.turns[: x.shape[1]]


class Filter(nn.Module):
    """A learned filter in the frequency domain: complex in, real out."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.response = nn.Parameter(torch.randn(size, dtype=torch.complex64))

    def forward(self, x: Tensor) -> Tensor:
        return torch.fft.ifft(torch.fft.fft(x, dim=1) * self.response, dim=1).abs()


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 6)
        self.rotation = Rotation(6, 9)
        self.filter = Filter(3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        rotated = self.rotation(self.first(x))
        return rotated, self.filter(rotated)


@pytest.fixture
def network() -> tuple[nn.Module, tuple[Tensor, ...]]:
    torch.manual_seed(0)
    return Network(), (torch.randn(2, 7, 5),)


@pytest.mark.parametrize("round_trip", [False, True])
@pytest.mark.every(2)
def test_complex_cells_agree(network: tuple[nn.Module, tuple[Tensor, ...]], round_trip: bool) -> None:
    report = parity.check(*network, round_trip=round_trip)
    assert report.ok, str(report)
    assert report.cells["rotation"].comparisons, "nothing was compared"


class Product(nn.Module):
    """Takes and gives several complex tensors."""

    def forward(self, a: Tensor, b: Tensor) -> dict[str, Tensor]:
        return {"product": a * b, "spectrum": torch.fft.fft(a.real), "same": b}


class Products(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.product = Product()
        self.weight = nn.Parameter(torch.randn(3, 4, dtype=torch.complex64))

    def forward(self, x: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        first = self.product(torch.complex(x, 2 * x), z.conj() * self.weight)
        second = self.product(*torch.unbind(torch.stack([first["spectrum"], first["same"]])))
        return (second["product"] * first["product"]).abs(), second["spectrum"]


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.every(2)
def test_complex_tensors_cross_cells_in_numbers(train: bool) -> None:
    torch.manual_seed(0)
    report = parity.check(
        Products(), (torch.randn(3, 4), torch.randn(3, 4, dtype=torch.complex64)), round_trip=True, train=train
    )
    assert report.ok, str(report)


def test_a_forgotten_conjugate_is_found_in_its_cell(network: tuple[nn.Module, tuple[Tensor, ...]]) -> None:
    reference, args = network
    candidate = copy.deepcopy(reference)
    candidate.rotation.turns.copy_(candidate.rotation.turns.conj())
    report = parity.compare(reference, candidate, args)
    assert not report.ok
    assert report.failing == ["rotation"]


def test_arguments_are_complex_or_pairs() -> None:
    module = Filter(3)
    numbers = torch.randn(2, 5, 3, dtype=torch.complex64)
    program = converter.from_torch(module, (numbers,))
    expected = module(numbers).detach().numpy()
    for given in (numbers, numbers.numpy(), torch.view_as_real(numbers)):
        assert program(given) == pytest.approx(expected, abs=1e-5)
    _, gradients = program.value_and_grad(numbers)
    leaf = numbers.clone().requires_grad_()
    module(leaf).sum().backward()
    assert leaf.grad is not None
    assert module.response.grad is not None
    assert gradients.inputs[0] == pytest.approx(torch.view_as_real(leaf.grad).numpy(), abs=1e-5)
    assert gradients.parameters["response"] == pytest.approx(torch.view_as_real(module.response.grad).numpy(), abs=1e-4)
