"""Gradients that torch itself computes wrongly are replaced, said, and no side's fault."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.parity.cli import main
from cellbridge.parity.results.comparison import REFERENCE_WRONG
from cellbridge.parity.sides.operator_faults import RightGradients

NORMS: dict[str, Callable[[], nn.Module]] = {
    "eval": lambda: nn.BatchNorm2d(6).eval(),
    "train": lambda: nn.BatchNorm2d(6),
    "instance": lambda: nn.InstanceNorm2d(6, affine=True),
}


def permuted(values: Tensor) -> Iterator[Tensor]:
    """Yield the values in all orders of axes in memory, and in a part of a larger tensor."""
    for order in itertools.permutations(range(values.ndim)):
        yield values.permute(order).contiguous().permute([order.index(axis) for axis in range(values.ndim)])
    part = torch.zeros([2 * size for size in values.shape], dtype=values.dtype)[tuple([slice(None, None, 2)] * 4)]
    yield part.copy_(values)


def derivative(norm: nn.Module, x: Tensor, cotangent: Tensor, direction: Tensor) -> float:
    """The derivative of the weighted outputs along a direction, by central differences in float64."""
    with torch.no_grad():
        difference = norm(x + 1e-5 * direction) - norm(x - 1e-5 * direction)
    return float((cotangent * difference).sum()) / 2e-5


@pytest.mark.parametrize("shape", [(1, 6, 4, 5), (1, 6, 4, 1), (2, 6, 4, 5)])
@pytest.mark.parametrize("kind", NORMS)
@pytest.mark.every(6)
def test_gradients_are_the_derivative_in_every_layout(kind: str, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    norm = NORMS[kind]().double()
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    values, cotangent, direction = (torch.randn(shape, dtype=torch.float64) for _ in range(3))
    expected = derivative(norm, values, cotangent, direction)
    for x, g in itertools.product(permuted(values), permuted(cotangent)):
        leaf = x.detach().requires_grad_()
        y = norm(leaf)
        with RightGradients(norm) as right:
            (gradient,) = torch.autograd.grad(y, leaf, g)
        assert float((gradient * direction).sum()) == pytest.approx(expected, rel=1e-6)
    assert all(path == "" for path, _ in right.faults)


class Axial(nn.Module):
    """A network whose batch norm gets a gradient in permuted strides, as in LeViT, XCiT and EfficientFormer."""

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, padding=1)
        self.norm = nn.BatchNorm2d(6)
        self.fc = nn.Linear(6, 5)
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.conv(x) * self.factor)
        return self.fc(y.permute(2, 0, 3, 1).contiguous())


def test_a_batch_of_one_accuses_no_side() -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 3, 4, 5)
    report = parity.check(Axial(), (x,))
    assert not report.failed
    assert not report.ok
    assert report.reference_wrong == ["norm"]
    statuses = {path: cell.status for path, cell in report.cells.items()}
    assert {path for path, status in statuses.items() if status == REFERENCE_WRONG} == {"norm"}
    assert "aten.native_batch_norm_backward" in report.cells["norm"].wrong_side_reason
    assert report.network_verdict.verdict == "the same function"
    assert "torch's gradient is wrong in norm" in str(report)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.every(2)
def test_a_fault_of_a_side_is_still_found(batch: int) -> None:
    torch.manual_seed(0)
    reference, candidate = Axial(), Axial(1.01)
    candidate.load_state_dict(reference.state_dict())
    report = parity.compare(reference, candidate, (torch.randn(batch, 3, 4, 5),))
    assert report.failed


def test_two_images_are_judged_as_ever() -> None:
    report = parity.check(Axial(), (torch.randn(2, 3, 4, 5),))
    assert report.ok
    assert not report.reference_wrong


MODEL = """
import torch
from torch import nn


class Axial(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(6)
        self.fc = nn.Linear(6, 5)

    def forward(self, x):
        return self.fc(self.norm(x).permute(2, 0, 3, 1).contiguous())


model = Axial()
inputs = (torch.randn(1, 6, 4, 5),)
"""


def test_the_command_ends_with_4(tmp_path: Path) -> None:
    (tmp_path / "axial.py").write_text(MODEL)
    result = CliRunner().invoke(main, ["run", str(tmp_path / "axial.py")])
    assert result.exit_code == 4, result.output
    assert "native_batch_norm_backward" in result.output
