"""Modules whose Cells, inputs and outputs are 8-bit floats."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.parity.cli import main


class ToFloat8(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.to(torch.float8_e4m3fn)


class ScaledLinear(nn.Module):
    """A linear layer whose weight is stored in 8 bits, with a scale."""

    weight: Tensor
    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.randn(8, 8).to(torch.float8_e4m3fn))
        self.register_buffer("scale", torch.tensor(0.5))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x.to(torch.float32), self.weight.to(torch.float32) * self.scale)


class Inside(nn.Module):
    """Quantized activations pass from Cell to Cell, and the weights of one are rounded in forward."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.quantize = ToFloat8()
        self.second = ScaledLinear()

    def forward(self, x: Tensor) -> Tensor:
        weight = self.first.weight.to(torch.float8_e5m2).reshape(-1).to(x.dtype).reshape(8, 8)
        return self.second(self.quantize(nn.functional.linear(30 * x, weight)))


class WithoutGradient(Inside):
    def forward(self, x: Tensor) -> Tensor:
        weight = self.first.weight.to(torch.float8_e5m2).reshape(-1).to(x.dtype).reshape(8, 8)
        return self.second(self.quantize(nn.functional.linear(30 * x, weight).detach()))


class Outside(nn.Module):
    """Takes 8-bit floats, and returns them beside floats."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.linear(x.to(torch.float32))
        return y.to(torch.float8_e5m2), y


class AnotherRounding(Outside):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.linear(x.to(torch.float32))
        return (y * 1.25).to(torch.float8_e5m2), y


def seeded(kind: type[nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return kind().eval()


FLOATS = torch.linspace(-2, 2, 32).reshape(4, 8)
INPUTS = {Inside: FLOATS, Outside: FLOATS.to(torch.float8_e4m3fn)}
PLANTED = [(Inside, WithoutGradient, "gradient"), (Outside, AnotherRounding, "output")]


@pytest.mark.parametrize("kind", INPUTS)
def test_a_module_with_8_bit_floats_holds(kind: type[nn.Module]) -> None:
    report = parity.check(seeded(kind), (INPUTS[kind],), probe=True)
    assert report.ok, str(report)
    assert parity.compare(seeded(kind), seeded(kind), (INPUTS[kind],)).ok


@pytest.mark.parametrize(("kind", "wrong", "quantity"), PLANTED)
def test_a_fault_in_a_module_with_8_bit_floats_fails(
    kind: type[nn.Module], wrong: type[nn.Module], quantity: str
) -> None:
    candidate = seeded(wrong)
    candidate.load_state_dict(seeded(kind).state_dict())
    report = parity.compare(seeded(kind), candidate, (INPUTS[kind],))
    assert not report.ok
    assert quantity in str(report)


@pytest.mark.parametrize("kind", ["float8_e4m3fn", "float8_e5m2"])
def test_an_exported_file_with_8_bit_floats_is_compared_with_its_model(kind: str, tmp_path: Path) -> None:
    model = tmp_path / "model.py"
    model.write_text(
        "import torch\n"
        "class Q(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        f"        y = x.to(torch.float32) * 2\n"
        f"        return y.to(torch.{kind}), y\n"
        "def model():\n"
        "    return Q()\n"
        "def inputs():\n"
        f"    return (torch.linspace(-2, 2, 8).to(torch.{kind}),)\n"
    )
    runner = CliRunner()
    file = str(tmp_path / "model.onnx")
    for command in (["export", str(model), "-o", file], ["compare", str(model), file], ["run", file]):
        result = runner.invoke(main, command)
        assert result.exit_code == 0, result.output
