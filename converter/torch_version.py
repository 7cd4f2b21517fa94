"""Which torch runs: what it computes and how it traces differs between those that are supported."""

from __future__ import annotations

import re

import torch


def torch_is(major: int, minor: int) -> bool:
    """Whether the torch that runs is of this version or a newer one; a pre-release counts as its release."""
    found = re.match(r"(\d+)\.(\d+)", torch.__version__)
    assert found is not None, f"torch has the version {torch.__version__!r}"
    return (int(found[1]), int(found[2])) >= (major, minor)
