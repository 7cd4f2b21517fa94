"""Shuffling of channels across groups."""

from __future__ import annotations

from typing import Any

from ... import checks
from ...functional import images
from ..cell import Cell


class ChannelShuffle(Cell):
    """Interleaves `groups` equal groups of channels: the first of each, the second of each, ... (Zhang 2017).

    Args:
        groups: the number of groups, above 0.

    Raises:
        TypeError: `groups` isn't an int.
        ValueError: `groups` isn't above 0; in a call, it doesn't divide the channels.
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = checks.positive_int(groups, "groups", of="ChannelShuffle")

    def construct(self, x: Any) -> Any:
        """(N, C, ...) with at least 3 dimensions (else `ValueError`); returns the same shape."""
        return images.channel_shuffle(x, self.groups)

    def extend_repr(self) -> str:
        """The groups."""
        return f"groups={self.groups}"
