"""Channels of groups taken in turns."""

from __future__ import annotations

from typing import Any

from ... import checks
from ...functional import images
from ..cell import Cell


class ChannelShuffle(Cell):
    """The channels of `groups` equal groups taken in turns: the first of each, the second of each, ... (Zhang 2017).

    Args:
        groups: how many, above 0.

    Raises:
        TypeError: it is no int.
        ValueError: it isn't above 0; at a call, it doesn't divide the channels.
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = checks.positive_int(groups, "groups", of="ChannelShuffle")

    def construct(self, x: Any) -> Any:
        """(N, C, ...) with at least 3 dimensions (else `ValueError`); the same out."""
        return images.channel_shuffle(x, self.groups)

    def extend_repr(self) -> str:
        """The groups."""
        return f"groups={self.groups}"
