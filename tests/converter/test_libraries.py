"""What libraries decide while they are traced."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn

from cellbridge.converter.capture.export import from_torch
from cellbridge.converter.capture.libraries import without_value_checks
from tests.converter.capturing import assert_matches_torch


def test_everything_is_as_before_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    masks = ModuleType("transformers.masking_utils")
    masks.is_torchdynamo_exporting = exporting = lambda: True  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "transformers.masking_utils", masks)
    layers, checked = torch.nn.modules.transformer, torch.distributions.Distribution._validate_args
    detect = layers._detect_is_causal_mask
    with pytest.raises(ZeroDivisionError), without_value_checks():  # noqa: PT012 (the context is what is tested)
        assert not masks.is_torchdynamo_exporting()
        assert not torch.distributions.Distribution._validate_args
        assert layers._detect_is_causal_mask(torch.ones(2, 2)) is False
        raise ZeroDivisionError
    assert masks.is_torchdynamo_exporting is exporting
    assert torch.distributions.Distribution._validate_args is checked
    assert layers._detect_is_causal_mask is detect


def test_a_model_without_a_mask_goes_without(monkeypatch: pytest.MonkeyPatch) -> None:
    masks = ModuleType("transformers.masking_utils")
    masks.is_torchdynamo_exporting = torch.compiler.is_exporting  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "transformers.masking_utils", masks)

    class Masking(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + torch.ones(2) if masks.is_torchdynamo_exporting() else x

    x = torch.zeros(2)
    assert from_torch(Masking(), (x,))(x).tolist() == [0.0, 0.0]


def test_batch_norm_without_momentum_averages_over_all_batches() -> None:
    module = nn.BatchNorm2d(3, momentum=None)
    module(torch.rand(4, 3, 2, 2))
    program = assert_matches_torch(module, torch.rand(4, 3, 2, 2), train=True)
    assert [name for name, buffer in program.buffers.items() if buffer.update] == [
        "running_mean",
        "running_var",
        "num_batches_tracked",
    ]
    assert_matches_torch(nn.BatchNorm1d(3, momentum=None), torch.rand(4, 3), train=True, dtype=torch.float32)
    assert_matches_torch(nn.BatchNorm1d(3, momentum=None, track_running_stats=False), torch.rand(4, 3), train=True)


def test_the_loss_of_one_sample_has_no_batch() -> None:
    loss = nn.MultiLabelMarginLoss(reduction="none")
    assert_matches_torch(loss, torch.rand(3), torch.tensor([2, -1, 0]))
    assert_matches_torch(loss, torch.rand(1, 3), torch.tensor([[2, -1, 0]]))
