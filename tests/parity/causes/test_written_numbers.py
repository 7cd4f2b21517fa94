"""A number, or an axis, is the cause only where it stands in the program that is said to have it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from cellbridge import parity
from cellbridge.parity.causes.written_numbers import is_written
from cellbridge.parity.results.cause import Cause

pytestmark = pytest.mark.causes

Function = Callable[[Tensor], Tensor]
X = torch.randn(2, 7, 3, generator=torch.Generator().manual_seed(0))


class Applied(nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self._function = function

    def forward(self, x: Tensor) -> Tensor:
        return self._function(x)


def causes(reference: Function, candidate: Function) -> list[Cause]:
    report = parity.compare(Applied(reference), Applied(candidate), (X,), probe=False)
    return [cause for path in report.failing for cause in report.cells[path].causes]


def test_a_sum_for_a_mean_is_no_scale_of_the_function_before_it() -> None:
    (cause,) = causes(lambda x: functional.elu(x).mean(1), lambda x: functional.elu(x).sum(1))
    assert cause.summary == "reduce_sum is computed in the candidate, reduce_mean in the reference"


def test_a_scale_that_is_written_is_named() -> None:
    (cause,) = causes(lambda x: functional.elu(x).mean(1), lambda x: 1.5 * functional.elu(x).mean(1))
    assert "1.5" in cause.summary


def grid(points: Tensor, dim: int) -> Function:
    whole = points.expand(2, 7)[..., None].clone()
    return lambda x: torch.cat([x, whole], dim).cumsum(1)


def test_an_axis_counted_from_the_other_end_is_no_cause() -> None:
    """The grids differ, and stand in the operator whose axis is spelled differently."""
    (cause,) = causes(grid(torch.linspace(0, 1, 7), -1), grid(torch.arange(7) / 7, 2))
    assert "dim" not in cause.summary
    assert "is multiplied by 0.857143 in the candidate" in cause.summary


def folded(conv: nn.Conv2d, norm: nn.BatchNorm2d, eps: float) -> nn.Conv2d:
    """Return the convolution with the norm behind it folded into it."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    factor = norm.weight / (norm.running_var + eps).sqrt()
    result = nn.Conv2d(conv.in_channels, conv.out_channels, conv.kernel_size[0])
    result.load_state_dict(
        {"weight": conv.weight * factor[:, None, None, None], "bias": norm.bias - norm.running_mean * factor}
    )
    return result


def test_a_number_that_was_folded_into_weights_is_named() -> None:
    torch.manual_seed(0)
    conv, norm = nn.Conv2d(2, 3, 3, bias=False), nn.BatchNorm2d(3)
    assert norm.running_var is not None
    nn.init.uniform_(norm.running_var, 0.5, 1.5)
    reference = nn.Sequential(OrderedDict(block=nn.Sequential(conv, norm, nn.ReLU()), head=nn.Conv2d(3, 2, 2)))
    candidate = nn.Sequential(OrderedDict(merged=folded(conv, norm, 1e-3), act=nn.ReLU(), last=reference.head))
    report = parity.compare(reference.eval(), candidate.eval(), (torch.randn(2, 2, 6, 6),), probe=False)
    (cause,) = (cause for path in report.failing for cause in report.cells[path].causes)
    assert cause.summary == "in batch_norm, eps is 0.001 in the candidate, 1e-05 in the reference"


@pytest.mark.parametrize(
    ("number", "is_there"), [(8.0, True), (0.125, True), (64.0, True), (7.0, False), (1.0, True), (-1.0, False)]
)
def test_a_number_is_written_in_any_form(number: float, is_there: bool) -> None:
    assert is_written(number, [0.125, 3.0]) == is_there


def test_a_tiny_number_is_not_1_less_1() -> None:
    assert not is_written(-4e-8, {1.0, 24.0})
    assert is_written(0.1, {0.9})
    assert is_written(0.75, {4.0})
    assert is_written(1e-3, {0.999})


def test_the_eps_of_a_norm_that_is_written_out_has_its_name() -> None:
    def norm(x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + 1e-3)

    (cause,) = causes(lambda x: functional.layer_norm(x, [3]), norm)
    assert cause.summary == "eps, the number in add, is 0.001 in the candidate, 1e-05 in the reference"
    assert (cause.attribute, cause.reference_value, cause.candidate_value) == ("eps", 1e-5, 1e-3)
    assert cause.fix == "use eps=1e-05"
