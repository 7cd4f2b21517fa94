"""`jax_side`: a network in JAX, to be compared with a torch module. JAX is imported when it is run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...runtime.errors import UsageError

NAME = "jax"
"""The name of the side in reports."""
KINDS = ("a flax.nnx.Module", "a flax.linen.Module with its variables", "an equinox.Module", "a function of parameters")


@dataclass(frozen=True)
class JaxSide:
    """A network in JAX.

    Attributes:
        network: a module of Flax or Equinox, or a function `f(params, *args)`.
        params: the variables of a module of Linen, or the first argument of the function; None for the other modules,
            which hold their parameters.
        inputs: makes the network's arguments from those of torch, as NumPy arrays: a function that returns a tuple.
            None if they are the same.
        returns: makes what the network is said to return of its result; None for the result itself.
    """

    network: Any
    params: Any = None
    inputs: Callable[..., tuple[Any, ...]] | None = None
    returns: Callable[[Any], Any] | None = None


def jax_side(network: Any, params: Any = None, *, inputs: Callable[..., tuple[Any, ...]] | None = None) -> JaxSide:
    """Return a network in JAX as a candidate for `parity.compare` and `assert_parity`.

    The network is run as it is given: put it into eval mode before (`model.eval()` in NNX, `deterministic=True`).

    Args:
        network: a `flax.nnx.Module`, a `flax.linen.Module`, an `equinox.Module`, or a function `f(params, *args)`.
        params: the variables of a Linen module, or the first argument of the function: a pytree of arrays.
        inputs: a function from torch's arguments, as NumPy arrays, to a tuple of the network's, such as
            `lambda x: (x.transpose(0, 2, 3, 1),)` for images. None if they are the same.

    Raises:
        UsageError: it is something else, or its parameters are missing.
    """
    if is_linen(network) and params is None:
        raise UsageError("jax_side: a module of flax.linen needs its variables: jax_side(module, variables)")
    if (is_nnx(network) or is_equinox(network)) and params is not None:
        raise UsageError("jax_side: this module holds its parameters itself; leave `params` out")
    if not callable(network):
        raise UsageError(f"jax_side: needed {', or '.join(KINDS)}; given {type(network).__name__}")
    return JaxSide(network, params, inputs)


def as_jax_side(network: Any) -> JaxSide | None:
    """Return a side, or a module that holds its parameters, as a side; None if it is neither."""
    if is_nnx(network) or is_equinox(network):
        return JaxSide(network)
    return network if isinstance(network, JaxSide) else None


def is_nnx(network: Any) -> bool:
    """Whether it is a module of Flax's NNX."""
    return _is_of(network, "flax.nnx")


def is_linen(network: Any) -> bool:
    """Whether it is a module of Flax's Linen."""
    return _is_of(network, "flax.linen")


def is_equinox(network: Any) -> bool:
    """Whether it is a module of Equinox."""
    return _is_of(network, "equinox")


def _is_of(network: Any, library: str) -> bool:
    """Whether a class is derived from a library's Module, which has been imported then."""
    base = getattr(sys.modules.get(library), "Module", None)
    return base is not None and isinstance(network, base)
