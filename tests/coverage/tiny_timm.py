"""Models of timm in small versions."""

from __future__ import annotations

import importlib
from typing import Any

import torch

from tests.coverage import torchvision_operators
from tests.coverage.tiny import noise, randomized

torchvision_operators.declare()

import timm  # noqa: E402  (imports torchvision)


def image_model(
    name: str, size: int = 32, channels: int = 3, **given: Any
) -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
    """The model of that name with 5 classes, random weights and four images; `given` makes it smaller.

    Where timm fixes the sizes of the models that it names, the name is that of a class, `module.Class`.
    """
    torch.manual_seed(0)
    module, _, class_ = name.rpartition(".")
    if module:
        made = getattr(importlib.import_module(f"timm.models.{module}"), class_)(num_classes=5, **given)
    else:
        made = timm.create_model(name, pretrained=False, num_classes=5, **given)
    return randomized(made), (noise(4, channels, size, size),), {}
