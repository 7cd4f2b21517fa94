"""A case of a family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

Built = tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Case:
    """One model.

    Attributes:
        name: unique name of the case.
        family: family that it represents.
        build: creates the module, positional and keyword inputs.
    """

    name: str
    family: str
    build: Callable[[], Built]
