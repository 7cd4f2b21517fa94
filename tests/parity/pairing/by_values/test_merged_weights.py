"""Ports that have merged what the module computes from several parameters: folded norms, low-rank updates, gains."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

from cellbridge import parity
from cellbridge.parity.checking.onnx_files.module_and_file import ModuleAndFile
from cellbridge.parity.options import Options
from cellbridge.parity.report.report import Report
from cellbridge.parity.sides.torch_side import TorchSide
from cellbridge.parity.support.progress import NoProgress

WIDTH = 6


class Folded(nn.Module):
    """A convolution and its norm, of which the port has one convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, WIDTH, 3, padding=1, bias=False), nn.BatchNorm2d(WIDTH)
        self.norm.running_mean, self.norm.running_var = torch.randn(WIDTH), torch.rand(WIDTH) + 0.5

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(x)).relu()  # type: ignore[no-any-return]


class Adapted(nn.Module):
    """A layer with a low-rank update, and a norm of gain 1 + w."""

    def __init__(self) -> None:
        super().__init__()
        self.base, self.down, self.up = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2), nn.Linear(2, WIDTH)
        self.gain = nn.Parameter(torch.randn(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        y = self.base(x) + 0.5 * self.up(self.down(x))
        return F.layer_norm(y, (WIDTH,)) * (1.0 + self.gain)


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.folded, self.adapted = Folded(), Adapted()
        self.head = weight_norm(nn.Linear(WIDTH, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.adapted(self.folded(x).mean((2, 3))))  # type: ignore[no-any-return]


class Port(nn.Module):
    """Has one weight for each of these, from the reference's parameters."""

    def __init__(self, like: Network, eps: float, detach: bool) -> None:
        super().__init__()
        self.detach = detach
        conv, norm, adapted = like.folded.conv, like.folded.norm, like.adapted
        assert norm.running_mean is not None
        assert norm.running_var is not None
        scale = norm.weight / (norm.running_var + eps).sqrt()
        self.c, self.l, self.out = nn.Conv2d(3, WIDTH, 3, padding=1), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 3)
        with torch.no_grad():
            self.c.weight.copy_(conv.weight * scale[:, None, None, None])
            self.c.bias.copy_(norm.bias - norm.running_mean * scale)  # type: ignore[union-attr]
            self.l.weight.copy_(adapted.base.weight + 0.5 * adapted.up.weight @ adapted.down.weight)
            self.l.bias.copy_(adapted.base.bias + 0.5 * (adapted.up.weight @ adapted.down.bias + adapted.up.bias))
            self.out.weight.copy_(like.head.weight)
            self.out.bias.copy_(like.head.bias)
        self.scale = nn.Parameter(1 + adapted.gain.detach())

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.c(x)).mean((-1, -2))
        y = self.l(y.detach() if self.detach else y)
        return self.out(F.layer_norm(y, (WIDTH,), self.scale))  # type: ignore[no-any-return]


def compared(eps: float = 1e-5, detach: bool = False, change: Callable[[Port], None] = lambda port: None) -> Report:
    torch.manual_seed(0)
    reference = Network()
    for name, parameter in reference.named_parameters():
        if not name.startswith("head"):
            parameter.data += 0.2 * torch.rand_like(parameter)
    port = Port(reference, eps, detach)
    change(port)
    return parity.compare(copy.deepcopy(reference).eval(), port.eval(), torch.randn(2, 3, 5, 5))


def test_merged_parameters_have_their_cells_and_gradients() -> None:
    report = compared()
    assert report.ok, str(report)
    assert "parameters" not in report.conditions_in_words  # the gradients of all were compared
    judged = {path for path, cell in report.cells.items() if cell.comparisons}
    assert {"folded.conv", "folded.norm", "adapted.base", "adapted.up", "adapted.down", "head"} <= judged
    (note,) = [note for note in report.notes if "merged" in note]
    assert all(path in note for path in ("folded.conv", "folded.norm", "adapted.base"))


def frozen(port: Port) -> None:
    port.l.weight.requires_grad_(False)
    port.l.bias.requires_grad_(False)


def rounded_twice(port: Port) -> None:
    port.scale.data += 3e-6


@pytest.mark.parametrize(
    ("fault", "failing"),
    [
        ({"eps": 1e-3}, {"folded"}),
        ({"detach": True}, {""}),
        ({"change": frozen}, {"adapted.base", "adapted.up", "adapted.down"}),
        ({"change": rounded_twice}, {"adapted"}),
    ],
)
@pytest.mark.every(2)
def test_faults_aren_t_merged_away(fault: dict[str, object], failing: set[str]) -> None:
    report = compared(**fault)  # type: ignore[arg-type]
    assert set(report.failing) == failing, str(report)


class Behind(nn.Module):
    """A product, and a convolution with its norm behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.square, self.folded = nn.Linear(5, 5), Folded()

    def forward(self, x: Tensor) -> Tensor:
        return self.folded(self.square(x).tanh())  # type: ignore[no-any-return]


class WrongAndMerged(nn.Module):
    """Has the product's weight transposed, and one convolution."""

    def __init__(self, like: Behind) -> None:
        super().__init__()
        conv, norm = like.folded.conv, like.folded.norm
        assert norm.running_mean is not None
        assert norm.running_var is not None
        scale = norm.weight / (norm.running_var + norm.eps).sqrt()
        self.p, self.c = nn.Linear(5, 5), nn.Conv2d(3, WIDTH, 3, padding=1)
        with torch.no_grad():
            self.p.weight.copy_(like.square.weight.T)
            self.p.bias.copy_(like.square.bias)
            self.c.weight.copy_(conv.weight * scale[:, None, None, None])
            self.c.bias.copy_(norm.bias - norm.running_mean * scale)  # type: ignore[union-attr]

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.c(self.p(x).tanh()))


def test_merged_weights_may_be_rounded_behind_a_wrong_weight() -> None:
    torch.manual_seed(0)
    reference = Behind().eval()
    port = TorchSide("port", WrongAndMerged(reference).eval(), (x := torch.randn(2, 3, 5, 5),), {})
    file = ModuleAndFile(reference, port.in_interpreter().program, Options(), NoProgress())
    alignment = file.align_inputs((x,), {})
    assert {pair.module for pair in alignment.correspondence.cells if pair.cell} >= {
        "square",
        "folded.conv",
        "folded.norm",
    }
    computed = {name for name in port.parameters() if alignment.side.is_computed(name)}
    assert computed == {"c.weight", "c.bias"}


class ChannelsLast(nn.Module):
    """Has its channels last between convolutions, and there a gain and a shift for each norm."""

    def __init__(self, like: nn.Sequential, eps: float) -> None:
        super().__init__()
        folded = [layer for layer in like if isinstance(layer, Folded)]
        self.convs = nn.ModuleList(layer.conv for layer in folded)
        gains = [layer.norm.weight / (layer.norm.running_var + eps).sqrt() for layer in folded]  # type: ignore[operator]
        shifts = [x.norm.bias - x.norm.running_mean * gain for x, gain in zip(folded, gains, strict=True)]  # type: ignore[operator]
        self.gains, self.shifts = nn.ParameterList(gains), nn.ParameterList(shifts)

    def forward(self, x: Tensor) -> Tensor:
        x = x.permute(0, 2, 3, 1)
        for conv, gain, shift in zip(self.convs, self.gains, self.shifts, strict=True):
            x = (conv(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1) * gain + shift).relu()
        return x.mean((1, 2))


@pytest.mark.slow
@pytest.mark.parametrize(("eps", "failing"), [(1e-5, set()), (1e-2, {"0.norm", "1.norm"})])
@pytest.mark.every(2)
def test_norms_are_merged_with_channels_last(eps: float, failing: set[str]) -> None:
    torch.manual_seed(0)
    first, second = Folded(), Folded()
    second.conv = nn.Conv2d(WIDTH, WIDTH, 3, bias=False)
    reference = nn.Sequential(first, second, nn.AdaptiveAvgPool2d(1), nn.Flatten()).eval()
    report = parity.compare(reference, ChannelsLast(reference, eps).eval(), torch.randn(2, 3, 5, 7))
    assert set(report.failing) == failing, str(report)
    gradients = {c.tensor for cell in report.cells.values() for c in cell.comparisons if c.kind == "parameter gradient"}
    assert failing or gradients == dict(reference.named_parameters()).keys()
