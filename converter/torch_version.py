"""The version of torch: the supported versions differ in what they compute and how they trace."""

from __future__ import annotations

import re

import torch


def torch_is(major: int, minor: int) -> bool:
    """Whether the installed torch has this version or a newer one; a pre-release counts as its release."""
    match = re.match(r"(\d+)\.(\d+)", torch.__version__)
    assert match is not None, f"torch has the version {torch.__version__!r}"
    return (int(match[1]), int(match[2])) >= (major, minor)
