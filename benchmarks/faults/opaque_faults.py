"""Faults in torch modules that can't be captured, so that nothing is known of them but what they compute."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

import torch

from . import planted
from .cases import Case
from .pairs import Pair

EVERY = 4
"""One in so many of the faults of torch modules."""


def cases() -> list[Case]:
    """Return one case for each fault that is chosen."""
    return [
        replace(case, kind="opaque", pair=functools.partial(_opaque, case.pair)) for case in planted.cases()[::EVERY]
    ]


def _opaque(make: Callable[[], Pair]) -> Pair:
    """Return the pair with a candidate each of whose Cells reads its inputs with NumPy, as other frameworks would."""
    pair = make()
    for module in pair.candidate.modules():
        module.register_forward_pre_hook(_read_inputs)
    return pair


def _read_inputs(module: torch.nn.Module, args: tuple[object, ...]) -> None:
    for value in args:
        if isinstance(value, torch.Tensor):
            value.detach().numpy()
