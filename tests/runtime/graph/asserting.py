"""Functions with `assert`, which stand in a file of their own: pytest writes those of its tests anew."""

from __future__ import annotations

from typing import Any


def asserted(x: Any) -> Any:
    """Asserts with a text."""
    assert x.sum() > 0, "must be positive"
    return x * 2


def in_a_branch(x: Any) -> Any:
    """Asserts under a condition, with a value."""
    y = x
    if x.sum() < 0:
        assert x.min() > 0, f"too small: {x.min()}"
        y = x * 5
    return y
