"""The seed of everything that is drawn: initial values, dropout masks, random operators."""

from __future__ import annotations

import numpy as np

from .. import checks
from ..ops import random

_seed: int | None = None


def set_seed(seed: int) -> None:
    """Make the draws that follow repeatable; NumPy's global generator is seeded along with ours.

    Args:
        seed: from 0 to 2**32 - 1.

    Raises:
        TypeError: `seed` isn't an int.
        ValueError: it is outside that range.
    """
    checks.of_type(seed, "seed", int, of="set_seed")
    checks.in_range(seed, "seed", "[0, 4294967295]", of="set_seed")
    global _seed
    random.seed(seed)
    np.random.seed(seed)
    _seed = seed


def get_seed() -> int | None:
    """The seed that `set_seed` was given last; None if it wasn't called."""
    return _seed
