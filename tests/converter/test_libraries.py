"""What libraries decide while they are traced."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn

from cellbridge.converter.capture.export import from_torch
from cellbridge.converter.capture.libraries import decided_without_values


def test_everything_is_as_before_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    masks = ModuleType("transformers.masking_utils")
    masks.is_torchdynamo_exporting = exporting = lambda: True  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "transformers.masking_utils", masks)
    layers, checked = torch.nn.modules.transformer, torch.distributions.Distribution._validate_args
    detect = layers._detect_is_causal_mask
    with pytest.raises(ZeroDivisionError), decided_without_values():  # noqa: PT012 (the context is what is tested)
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
