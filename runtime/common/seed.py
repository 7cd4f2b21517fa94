"""The seed of all random numbers: initial values, dropout masks, random operators."""

from __future__ import annotations

import numpy as np

from .. import checks
from ..ops import random

_seed: int | None = None


def set_seed(seed: int) -> None:
    """Make later random numbers reproducible; this also seeds NumPy's global generator.

    Args:
        seed: from 0 to 2**32 - 1.

    Raises:
        TypeError: `seed` isn't an int.
        ValueError: `seed` is out of range.
    """
    checks.of_type(seed, "seed", int, of="set_seed")
    checks.in_range(seed, "seed", "[0, 4294967295]", of="set_seed")
    global _seed
    random.seed(seed)
    np.random.seed(seed)
    _seed = seed


def get_seed() -> int | None:
    """Return the argument of the last `set_seed` call; None if there was none."""
    return _seed
