"""Networks that learn with fake quantization: judged where scales are fixed, refused where they follow the data."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.ao.quantization import (
    FakeQuantize,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    default_fake_quant,
    disable_fake_quant,
    disable_observer,
)
from torch.ao.quantization.fake_quantize import FusedMovingAvgObsFakeQuantize

from cellbridge import parity
from cellbridge.converter import from_torch
from cellbridge.runtime.errors import ConversionError

X = torch.randn(7, 6, generator=torch.Generator().manual_seed(0))


class Learned(nn.Module):
    """Learned step sizes, some values beyond the ends."""

    def __init__(self, per_channel: bool, factor: float, low: int = -20) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 5)
        self.per_channel, self.factor, self.low = per_channel, factor, low
        count = 5 if per_channel else 1
        self.scale = nn.Parameter(torch.linspace(0.01, 0.03, count))
        self.zero_point = nn.Parameter(torch.linspace(-1.6, 2.4, count))

    def forward(self, x: Tensor) -> Tensor:
        given, ends = (self.linear.weight, self.scale, self.zero_point), (self.low, 15)
        if self.per_channel:
            weight = torch._fake_quantize_learnable_per_channel_affine(*given, 0, *ends, self.factor)
        else:
            weight = torch._fake_quantize_learnable_per_tensor_affine(*given, *ends, self.factor)
        return nn.functional.linear(x, weight, self.linear.bias).tanh()


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("factor", [1.0, 0.25])
@pytest.mark.parametrize("train", [False, True])
@pytest.mark.every(6)
def test_learned_step_sizes(per_channel: bool, factor: float, train: bool) -> None:
    torch.manual_seed(0)
    report = parity.check(Learned(per_channel, factor), (X,), train=train, round_trip=True)
    assert report.ok, str(report)


@pytest.mark.parametrize(("factor", "low"), [(0.5, -20), (1.0, -19)])
def test_another_factor_or_end_is_found(factor: float, low: int) -> None:
    torch.manual_seed(0)
    reference, candidate = Learned(False, 1.0), Learned(False, factor, low)
    candidate.load_state_dict(reference.state_dict())
    assert not parity.compare(reference, candidate, (X,)).ok


class Quantized(nn.Module):
    def __init__(self, made: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.first, self.quantizer, self.last = nn.Linear(6, 5), made(), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.quantizer(self.first(x)))


def per_channel() -> nn.Module:
    ends = {"quant_min": -128, "quant_max": 127, "dtype": torch.qint8}
    scheme = {"qscheme": torch.per_channel_symmetric, "ch_axis": 1}
    return FakeQuantize(MovingAveragePerChannelMinMaxObserver, **ends, **scheme)


def fused() -> nn.Module:
    return FusedMovingAvgObsFakeQuantize(MovingAverageMinMaxObserver, quant_min=0, quant_max=255)


MODULES = {"per tensor": default_fake_quant, "per channel": per_channel, "fused": fused}


@pytest.mark.parametrize("made", MODULES.values(), ids=MODULES)
@pytest.mark.parametrize("train", [False, True])
@pytest.mark.every(6)
def test_modules_whose_observers_are_off(made: Callable[[], nn.Module], train: bool) -> None:
    torch.manual_seed(0)
    network = Quantized(made)
    network(X * 0.7)  # so that some values lie beyond what was seen
    network.apply(disable_observer)
    before = network.state_dict()
    report = parity.check(network, (X,), train=train)
    assert report.ok, str(report)
    assert "quantizer" in report.cells
    assert network.state_dict().keys() == before.keys()
    with torch.no_grad():
        network.quantizer.scale.mul_(1.01)
    wrong = parity.compare(network, from_torch(Quantized(nn.Identity), (X,)), (X,))
    assert not wrong.ok


def test_a_module_that_is_switched_off() -> None:
    network = Quantized(default_fake_quant)
    network(X)
    network.apply(disable_observer).apply(disable_fake_quant)
    assert parity.check(network, (X,)).ok


@pytest.mark.parametrize("made", MODULES.values(), ids=MODULES)
def test_an_enabled_observer_is_refused_with_what_to_do(made: Callable[[], nn.Module]) -> None:
    network = Quantized(made)
    network(X)
    with pytest.raises(ConversionError, match=r"observer of quantizer is enabled(.|\n)*disable_observer"):
        from_torch(network, (X,))
