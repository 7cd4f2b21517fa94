"""`manual_seed`, as torch's, without what it costs where there is no accelerator."""

from __future__ import annotations

import functools

import torch


def manual_seed(seed: int) -> None:
    """Seed torch's random numbers on all devices.

    For each kind of accelerator that isn't in use, `torch.manual_seed` formats a stack trace and keeps it, in case that
    the accelerator is used later. Without an accelerator, that takes longer than many a network and helps nobody.
    """
    if _has_accelerator():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


@functools.cache
def _has_accelerator() -> bool:
    return torch.accelerator.is_available()
