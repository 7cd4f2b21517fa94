"""Hand-written backward passes: wrong ones fail; surrogate ones pass, with a note."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.autograd import Function

from cellbridge import parity

X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


def function(forward, backward, **members):
    """A `torch.autograd.Function` of a forward(x) and a backward(x, g)."""

    def of_forward(ctx: Any, x):
        ctx.save_for_backward(x)
        return forward(x)

    def of_backward(ctx: Any, g):
        return backward(ctx.saved_tensors[0], g)

    given = {"forward": staticmethod(of_forward), "backward": staticmethod(of_backward)}
    return type("Made", (Function,), given | members)


class Network(nn.Module):
    def __init__(self, applied) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(4, 4)
        self.function = applied

    def forward(self, x):
        return self.function.apply(3 * self.linear(x)).tanh()


SURROGATES = {
    "round": function(torch.round, lambda x, g: g),
    "sign": function(torch.sign, lambda x, g: g * (x.abs() <= 1)),
    "spike": function(lambda x: (x > 0).to(x.dtype), lambda x, g: g / (1 + 10 * x.abs()) ** 2),
    "quantize": function(lambda x: (x * 4).round().clamp(-7, 7) / 4, lambda x, g: g * (x.abs() < 7 / 4)),
    "reversal": function(lambda x: x.view_as(x), lambda x, g: -0.7 * g),
    "clipped gradient": function(lambda x: x.clone(), lambda x, g: g.clamp(-0.01, 0.01)),
    "said to be": function(lambda x: x.sign() * x.abs().mean(), lambda x, g: g, surrogate_gradient=True),
}


@pytest.mark.every(2)
@pytest.mark.parametrize("applied", SURROGATES.values(), ids=SURROGATES)
def test_surrogate_gradients_pass_with_a_note(applied):
    report = parity.check(Network(applied), (X,), round_trip=True)
    assert report.ok, str(report)
    (note,) = report.notes
    assert "the backward of Made (torch.autograd.Function) is compared as it is written: " in note


def test_training_has_the_surrogate_gradient():
    report = parity.check_training(Network(SURROGATES["round"]), (X,), steps=2)
    assert report.ok, str(report)


def test_a_right_backward_needs_no_note():
    report = parity.check(Network(function(torch.exp, lambda x, g: g * x.exp())), (X,))
    assert report.ok, str(report)
    assert not report.notes


WRONG = {
    "factor": function(torch.exp, lambda x, g: 2 * g * x.exp()),
    "sign": function(torch.sin, lambda x, g: -g * x.cos()),
    "small": function(torch.exp, lambda x, g: g * x.exp() * (1 + 1e-6)),
    "none": function(torch.exp, lambda x, g: None),
    "straight through what has a derivative": function(lambda x: x.sign() * x.abs().mean(), lambda x, g: g),
}


@pytest.mark.parametrize("applied", WRONG.values(), ids=WRONG)
@pytest.mark.every(3)
def test_a_wrong_backward_fails(applied):
    report = parity.check(Network(applied), (X,))
    assert report.failing == [""]
    assert any(
        "isn't the derivative of its forward" in note and "surrogate_gradient = True" in note for note in report.notes
    )


QUANTIZED = {
    "per tensor": lambda x, scales: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -10, 10),
    "of tensors": lambda x, scales: torch.fake_quantize_per_tensor_affine(
        x, scales[0], torch.zeros((), dtype=torch.int32), -10, 10
    ),
    "per channel": lambda x, scales: torch.fake_quantize_per_channel_affine(
        x, scales, torch.tensor([0, 1, -2, 3], dtype=torch.int32), 1, -10, 10
    ),
}


@pytest.mark.parametrize("quantized", QUANTIZED.values(), ids=QUANTIZED)
@pytest.mark.every(3)
def test_fake_quantization(quantized):
    class Quantized(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.register_buffer("scales", torch.tensor([0.1, 0.2, 0.05, 0.3]))

        def forward(self, x):
            return quantized(self.linear(x), self.scales).tanh()

    report = parity.check(Quantized(), (X,), round_trip=True)
    assert report.ok, str(report)
    wider = parity.compare(Quantized(), Quantized(), (X,))
    assert not wider.ok
