"""Whole families of architectures, as small random models: what must convert, in eval and in train mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

Built = tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Case:
    """One model.

    Attributes:
        name: of the case; unique.
        family: that it stands for.
        build: makes the module, positional and keyword inputs.
    """

    name: str
    family: str
    build: Callable[[], Built]


def cases() -> Iterator[Case]:
    """All of them, family by family."""
    from tests.coverage import family_cases

    yield from family_cases.all_cases()
