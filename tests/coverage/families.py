"""Whole families of architectures, as small random models: what must convert, in eval and in train mode."""

from __future__ import annotations

import torch

from cellbridge import parity
from cellbridge.runtime.errors import CellbridgeError
from tests.coverage.family_cases import (
    contrastive,
    convolutional,
    decoders,
    detection,
    diffusion,
    encoder_decoders,
    mixtures,
    others,
    speech,
    state_spaces,
    text_encoders,
    vision,
)
from tests.coverage.family_cases.case import Case

CASES: list[Case] = [
    *text_encoders.CASES,
    *decoders.CASES,
    *encoder_decoders.CASES,
    *mixtures.CASES,
    *state_spaces.CASES,
    *vision.CASES,
    *convolutional.CASES,
    *detection.CASES,
    *speech.CASES,
    *contrastive.CASES,
    *diffusion.CASES,
    *others.CASES,
]


def try_family(case: Case, *, train: bool) -> str:
    """Convert a model and compare all sides, outputs and gradients: why it fails, or "" where parity holds."""
    torch.manual_seed(0)
    module, args, kwargs = case.build()
    try:
        parity.check(module, args, kwargs, train=train).raise_if_failed()
    except CellbridgeError as error:
        return f"{type(error).__name__}: {error}"
    return ""
