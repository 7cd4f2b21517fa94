"""Tensors that forward changes in place where a boolean mask says: captured; of parameters, refused with a way out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cellbridge.converter import from_torch
from cellbridge.runtime import ConversionError
from tests.converter.capturing import assert_matches_torch

_GENERATOR = torch.Generator().manual_seed(3)
X = torch.randn(4, 5, generator=_GENERATOR)
MASK = X > 0.3
OTHER_MASK = torch.tensor([[False] * 5, [True] * 5, [True, False] * 2 + [True], [False] * 5])


class TimeMix(nn.Module):
    """Changes what it has in place, as `change` says, given the module, x and a mask."""

    def __init__(self, change: Callable[[Any, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(5)
        self.first = nn.Parameter(torch.randn(4, 5, generator=generator))
        self.decay = nn.Parameter(torch.randn(5, generator=generator))
        self.register_buffer("state", torch.randn(4, 5, generator=generator))
        self.register_buffer("heads", torch.tensor([True, False, True, True, False]))
        self.change = change

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.change(self, x, mask)


def _assigned(module: Any, x: Tensor, mask: Tensor) -> Tensor:
    y = x * 1
    y[mask] = 0.5
    y[~mask & (x > -0.5)] += module.decay.sum()
    return y * module.first


def _assigned_values(module: Any, x: Tensor, mask: Tensor) -> Tensor:
    y = module.first * 2
    y[mask] = x[mask]
    y[mask] *= module.first[mask]
    return y


def _assigned_rows(module: Any, x: Tensor, mask: Tensor) -> Tensor:
    y = x * 1
    y[mask.any(1)] = module.decay
    y[mask.any(1), :2] *= 3
    y[:, module.heads] = module.decay[module.heads]
    return y * module.first


def _of_a_view(module: Any, x: Tensor, mask: Tensor) -> Tensor:
    y = x * module.first
    y[:2].masked_fill_(mask[:2], 0.0)
    y.view(-1)[mask.view(-1)] -= 1.0
    y.T[module.heads] = 7.0
    return y.sin()


def _put(module: Any, x: Tensor, mask: Tensor) -> Tensor:
    y = module.first * 1
    y.index_put_((mask,), x[mask], accumulate=True)
    y.index_put_((mask,), y[mask].exp())
    return y.masked_scatter_(x > 0, module.first * x)


def _state(module: Any, x: Tensor, mask: Tensor) -> Tensor:
    module.state[mask] = 0.0
    module.state.data[~mask] *= 0.5
    return module.state * module.first + x


def _normalized(module: Any, x: Tensor, mask: Tensor) -> Tensor:
    y = x * module.first
    y[mask] = y[mask].softmax(0)
    return y


def _through_data(module: Any, x: Tensor, mask: Tensor) -> Tensor:
    y = x * module.first
    y.data[mask] = 0.25
    z = (y * 2).exp()
    z.data = z.data.clamp(max=1.5)
    return z * module.first.data


def _counted(module: Any, x: Tensor, mask: Tensor) -> Tensor:
    y = x * module.first
    y[mask] = torch.arange(mask.sum().item(), dtype=x.dtype)
    return y


CAPTURED = [
    _assigned, _assigned_values, _assigned_rows, _of_a_view, _put, _state, _normalized, _through_data, _counted,
]  # fmt: skip


@pytest.mark.parametrize("mask", [MASK, OTHER_MASK, torch.ones(4, 5, dtype=torch.bool)], ids=["same", "other", "all"])
@pytest.mark.parametrize("change", CAPTURED)
@pytest.mark.every(18)
def test_changes_by_a_mask_are_captured(change: Callable[..., Tensor], mask: Tensor) -> None:
    assert_matches_torch(TimeMix(change), X, MASK, other_args=(X.flip(0), mask))


def _parameter_masked(module: Any, x: Tensor, mask: Tensor) -> Tensor:
    with torch.no_grad():
        module.first[mask] = 0.0
    return x * module.first


def _parameter_filled(module: Any, x: Tensor, mask: Tensor) -> Tensor:
    module.first.data.masked_fill_(mask, 0.0)
    return x * module.first


def _parameter_set(module: Any, x: Tensor, mask: Tensor) -> Tensor:
    module.first.data = torch.where(mask, module.first.data, 0.0)
    return x * module.first


@pytest.mark.parametrize("change", [_parameter_masked, _parameter_filled, _parameter_set])
@pytest.mark.every(3)
def test_a_parameter_changed_by_a_mask_is_refused_with_what_to_write(change: Callable[..., Tensor]) -> None:
    with pytest.raises(ConversionError) as refusal:
        from_torch(TimeMix(change), (X, MASK))
    message = str(refusal.value)
    assert "the model changes 'first', a parameter, in place" in message
    assert "test_masks_in_place.py:" in message
    assert "first = torch.where(mask, value, self.first)" in message


def test_what_is_to_be_written_works() -> None:
    def written(module: Any, x: Tensor, mask: Tensor) -> Tensor:
        first = torch.where(mask, 0.0, module.first)
        return x * first + module.decay.masked_fill(module.heads, 1.0)

    assert_matches_torch(TimeMix(written), X, MASK, other_args=(X, OTHER_MASK))


def test_data_of_another_shape_is_refused() -> None:
    def replaced(module: Any, x: Tensor, mask: Tensor) -> Tensor:
        module.state.data = x.reshape(5, 4)
        return module.state.sum() * module.first

    with pytest.raises(ConversionError, match=r"sets the data of a tensor float32\[4, 5\] to one float32\[5, 4\]"):
        from_torch(TimeMix(replaced), (X, MASK))


@pytest.mark.parametrize(
    "change",
    [
        lambda module, x, mask: x[:, : int(mask[0].sum())],
        lambda module, x, mask: x * sum(i for i in range(mask[0].sum())),
    ],
)
def test_a_python_integer_of_a_mask_is_refused_with_what_to_write(change: Callable[..., Tensor]) -> None:
    with pytest.raises(ConversionError, match=r"(?s)test_masks_in_place\.py:\d+.*write n\.item\(\)"):
        from_torch(TimeMix(change), (X, MASK))
