"""The table of layouts: `unpacked` replaces all groups of packed tensors by the weights that they hold."""

from __future__ import annotations

from collections.abc import Callable

from ..tensor import StoredCheckpoint
from .awq import unpack_awq
from .bitsandbytes import unpack_bitsandbytes
from .compressed_integers import unpack_compressed_integers
from .float8 import unpack_float8
from .fp4 import unpack_fp4
from .gptq import unpack_gptq

LAYOUTS: tuple[Callable[[StoredCheckpoint], StoredCheckpoint | None], ...] = (
    unpack_gptq, unpack_awq, unpack_bitsandbytes, unpack_compressed_integers, unpack_fp4, unpack_float8,
)  # fmt: skip
"""Each returns the checkpoint with the weights of one layout, or None if it has none."""


def unpacked(checkpoint: StoredCheckpoint) -> StoredCheckpoint:
    """Return the checkpoint with dequantized weights in the place of packed ones; itself if nothing is packed.

    Raises:
        UsageError: tensors of a layout contradict each other or the configuration.
    """
    for unpack in LAYOUTS:
        checkpoint = unpack(checkpoint) or checkpoint
    return checkpoint
