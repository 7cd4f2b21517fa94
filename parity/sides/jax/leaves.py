"""The leaves of pytrees: which are differentiated, and their dtypes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp


def is_floating(value: Any) -> bool:
    """Whether a value is an array of floating-point numbers."""
    return hasattr(value, "dtype") and bool(jnp.issubdtype(value.dtype, jnp.floating))


def is_variable(leaf: Any) -> bool:
    """Whether a leaf of the parameters is differentiated: an array of floating-point or complex numbers, or a float."""
    return isinstance(leaf, float) or (hasattr(leaf, "dtype") and bool(jnp.issubdtype(leaf.dtype, jnp.inexact)))


def split(tree: Any, is_chosen: Callable[[Any], bool]) -> tuple[list[Any], Callable[[Sequence[Any]], Any]]:
    """Return the chosen leaves of a pytree, and a function that returns the pytree with others in their place."""
    leaves, structure = jax.tree.flatten(tree)
    chosen = [is_chosen(leaf) for leaf in leaves]

    def with_others(others: Sequence[Any]) -> Any:
        following = iter(others)
        return jax.tree.unflatten(
            structure, [next(following) if is_taken else leaf for is_taken, leaf in zip(chosen, leaves, strict=True)]
        )

    return [leaf for is_taken, leaf in zip(chosen, leaves, strict=True) if is_taken], with_others


def cast(leaf: Any, dtype: str) -> Any:
    """Return an array of floating-point numbers in a dtype, others as they are."""
    if not hasattr(leaf, "dtype"):
        return leaf
    array = jnp.asarray(leaf)
    return array.astype(dtype) if is_floating(array) else array
