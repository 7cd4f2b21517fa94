"""Tokens of all sequences one after another, `[tokens, ...]`, as batches with padding, `[batch, length, ...]`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....runtime.errors import UsageError
from ....runtime.visible import visible_name
from ...sides.records import INPUT, Array, Key, Records, value_key


@dataclass(frozen=True)
class Packing:
    """Where the tokens of a recording without padding are in the reference's batches.

    Attributes:
        mask: [batch, length], true where there is a token; the tokens are in its order.
    """

    mask: Array

    @classmethod
    def of(cls, slot: str, truth: Records, where: str) -> Packing:
        """Return the packing by one of the network's inputs, which is 0 where there is padding.

        Raises:
            UsageError: there is no such input, or it isn't [batch, length].
        """
        mask = truth.values.get(Key("", 0, INPUT, slot))
        if mask is None or mask.ndim != 2:
            names = ", ".join(visible_name(key.slot) for key in truth.root_keys(INPUT))
            given = "there is none of that name" if mask is None else f"it has the shape {list(mask.shape)}"
            raise UsageError(
                f"{where}: needed an input [batch, length] that is 0 where there is padding, {visible_name(slot)}: "
                f"{given}; the reference's inputs: {names}"
            )
        return cls(mask != 0)

    def unpack(self, key: Key, array: Array, truth: Records) -> Array | None:
        """Return a tensor in the reference's shape; None if its shape isn't that without padding.

        Where there is padding, it has the reference's values, and gradients are zero.

        Args:
            key: the boundary.
            array: the recorded tensor, [tokens, ...] or [1, tokens, ...].
            truth: the reference's records.
        """
        like = truth.values.get(value_key(key))
        if like is None or array.shape == like.shape:
            return array
        rest = like.shape[2:]
        tokens = int(self.mask.sum())
        if like.shape[:2] != self.mask.shape or array.shape not in ((tokens, *rest), (1, tokens, *rest)):
            return None
        whole = like.astype(array.dtype) if key == value_key(key) else np.zeros(like.shape, array.dtype)
        whole[self.mask] = array.reshape(tokens, *rest)
        return whole
