"""What to do with a network in JAX that is given as it is: how `jax_side` makes a candidate of it."""

from __future__ import annotations

import functools
import inspect
import sys
from typing import Any

from .jax_side import JaxSide, is_equinox, is_linen, is_nnx

_STATELESS = "lambda params, *inputs: network.apply(params, None, *inputs)"
_STATEFUL = "lambda params, *inputs: network.apply(params, state, None, *inputs)[0]"
_HAIKU = {"Transformed": _STATELESS, "TransformedWithState": _STATEFUL}


def side_of(network: Any) -> str | None:
    """Return the call of `jax_side` that makes a side of a network in JAX; None if it isn't one.

    A module of Flax, Equinox or Haiku is a network in JAX, and so is a jitted function; a Python function may be one
    once JAX has been imported.
    """
    if is_nnx(network) or is_equinox(network):
        return "jax_side(network)"
    if is_linen(network):
        return "jax_side(network, variables)"
    kind = type(network)
    if kind.__module__.partition(".")[0] == "haiku" and kind.__name__ in _HAIKU:
        return f"jax_side({_HAIKU[kind.__name__]}, params)"
    if _is_jitted(network) or (_is_function(network) and "jax" in sys.modules):
        return "jax_side(function, params)"
    return None


def candidate_hint(network: Any) -> str:
    """Return how a network in JAX is given as a candidate, as the end of a message; empty for anything else."""
    side = side_of(network)
    if side is None:
        return ""
    return (
        f"\n  what to do: a network in JAX is given by `jax_side`: parity.compare(module, {side}, inputs), with "
        f"`from cellbridge.parity import jax_side`{_meaning(side)}"
    )


def reference_hint(network: Any) -> str:
    """Return that a network in JAX is the candidate, as the end of a message; empty for anything else."""
    side = "network" if isinstance(network, JaxSide) else side_of(network)
    if side is None:
        return ""
    port = "the side" if isinstance(network, JaxSide) else side
    return (
        f"\n  what to do: exchange the two: parity.compare(module, {port}, inputs); a network in JAX is a candidate, "
        "made by `jax_side`, and the torch module is the reference"
    )


def model_file_hint(network: Any) -> str:
    """Return how a network in JAX is given in a model file, as the end of a message; empty for anything else."""
    side = "network" if isinstance(network, JaxSide) else side_of(network)
    if side is None:
        return ""
    return (
        "\n  what to do: a network in JAX is the port of a torch module: in the model file of that module, write\n"
        "    from cellbridge.parity import jax_side\n\n"
        f"    def cell():\n        return {side}\n\n"
        f"  and judge it by parity run{_meaning(side)}"
    )


def _meaning(side: str) -> str:
    """Explain the names in a call of `jax_side`."""
    if "variables" in side:
        return "; `variables` is what network.init() returned, with the module's weights"
    if side == "jax_side(function, params)":
        return "; the function is called as function(params, *inputs)"
    return ""


def _is_jitted(network: Any) -> bool:
    """Whether it is what `jax.jit` returns."""
    return type(network).__name__ == "PjitFunction"


def _is_function(network: Any) -> bool:
    return inspect.isroutine(network) or isinstance(network, functools.partial)
