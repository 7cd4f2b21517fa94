"""Torch's weights under the names and in the layouts of Flax."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import nnx

LEAVES = {"kernel": "weight", "scale": "weight", "embedding": "weight", "mean": "running_mean", "var": "running_var"}
Weights = Mapping[str, "np.ndarray[Any, Any]"]


def fill(module: nnx.Module, weights: Weights) -> nnx.Module:
    """Give a module of NNX torch's weights; what torch doesn't have keeps its value."""
    for where, variable in nnx.to_flat_state(nnx.state(module, nnx.Param)):
        variable.set_value(_find(".".join(map(str, where)), variable.get_value(), weights))
    return module


def filled(variables: Mapping[str, Any], weights: Weights, path: str = "") -> dict[str, Any]:
    """Return variables of Linen with torch's weights; `layer_0` is torch's `layer.0`."""
    result: dict[str, Any] = {}
    for name, value in variables.items():
        inner = f"{path}.{name}" if path else name
        known = isinstance(value, Mapping)
        result[name] = filled(value, weights, inner) if known else _find(inner.replace("_", "."), value, weights)
    return result


def _find(name: str, value: Any, weights: Weights) -> Any:
    path, _, leaf = name.rpartition(".")
    other = LEAVES.get(leaf, leaf)
    array = weights.get(f"{path}.{other}" if path else other)
    if array is None:
        return value
    if leaf == "kernel":
        array = array.transpose(*range(2, array.ndim), 1, 0)
    return jnp.asarray(array.reshape(value.shape))
