"""The values that are fed at a boundary, from the records of another run."""

from __future__ import annotations

import numpy as np

from .records import INPUT_GRADIENT, OUTPUT_GRADIENT, Array, Key, Records, value_key


def feed_value(feed: Records | None, key: Key) -> Array | None:
    """Return the value to feed at `key`: the recorded one, zeros for a gradient that didn't arrive, or None."""
    if feed is None or key in feed.values or key.kind not in (INPUT_GRADIENT, OUTPUT_GRADIENT):
        return None if feed is None else feed.values.get(key)
    value = value_key(key)
    has_gradient = bool(feed.gradients.cotangents) and value in feed.values and value not in feed.boundaries.untracked
    return np.zeros(feed.values[value].shape) if has_gradient else None


def feed_value_like(feed: Records | None, key: Key, like: Array) -> Array | None:
    """Return the value to feed at `key`; None if there is none of the shape of `like`."""
    value = feed_value(feed, key)
    return value if value is not None and value.shape == like.shape else None


def feed_or_keep(feed: Records | None, key: Key, like: Array) -> Array:
    """Return the value to feed at `key` in the dtype of `like`; `like` itself if there is none of that shape."""
    value = feed_value_like(feed, key, like)
    return like if value is None else value.astype(like.dtype, copy=False)
