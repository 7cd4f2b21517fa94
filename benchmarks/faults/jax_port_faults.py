"""Faults in ports to JAX: the file of a port with something written differently, compared with the torch module."""

from __future__ import annotations

import functools
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch

from cellbridge.parity.sides.jax_side import JaxSide

from .cases import Case
from .networks import NETWORKS
from .pairs import Pair
from .port_edits import PortFault
from .running import all_values
from .source_edits import edited

OF_FLOAT32 = 1e-6  # an Embed layer computes in float32


def cases() -> list[Case]:
    """Return one case for each fault; none where JAX isn't installed."""
    if find_spec("flax") is None:
        return []
    from .jax_port_edits import FAULTS

    return [
        Case(
            f"{fault.network}/{fault.label}", fault.network, "jax", fault.cells, fault.cause, (fault.expected,),
            fault.words, functools.partial(jax_pair, fault.network, fault), fault.same_in_float64,
        )
        for fault in FAULTS
    ]  # fmt: skip


def jax_pair(network: str, fault: PortFault | None = None) -> Pair:
    """Return a module and its port to JAX, which has a fault, if one is given."""
    module = NETWORKS[network].module()
    changes = [(fault.old, fault.new)] if fault is not None else []
    port = edited(f"{__package__}.jax_ports", network, changes)
    side = port.build({name: tensor.numpy() for name, tensor in module.state_dict().items()})
    return Pair(module, side, NETWORKS[network].inputs(), options=OPTIONS)


def outputs_of_port(side: JaxSide, args: tuple[Any, ...], dtype: str) -> list[np.ndarray[Any, Any]]:
    """The outputs of a port with its parameters and inputs in a dtype."""
    import jax
    import jax.numpy as jnp
    from flax import nnx

    def cast(value: Any) -> Any:
        return jnp.asarray(value, dtype) if jnp.issubdtype(value.dtype, jnp.floating) else value

    arrays = tuple(np.asarray(arg) for arg in args)
    arrays = side.inputs(*arrays) if side.inputs is not None else arrays
    with jax.enable_x64(dtype == "float64"):
        inputs = map(cast, arrays)
        if side.params is None:
            graph, state = nnx.split(side.network)
            result = nnx.merge(graph, jax.tree.map(cast, state))(*inputs)
        else:
            result = side.network.apply(jax.tree.map(cast, side.params), *inputs)
        return [np.asarray(leaf) for leaf in jax.tree.leaves(result)]


def _difference(pair: Pair) -> float:
    """The largest relative difference of outputs in float64; infinite if a shape differs or the port raises."""
    there = all_values(pair.reference, pair.args, False)
    outputs = [v.numpy() for name, v in there.items() if name.startswith("output") and isinstance(v, torch.Tensor)]
    here = outputs_of_port(pair.candidate, pair.args, "float64")
    if [a.shape for a in outputs] != [b.shape for b in here]:
        return float("inf")
    return max(float(np.abs(a - b).max() / np.abs(a).max()) for a, b in zip(outputs, here, strict=True))


OPTIONS = {"difference": _difference, "rounding": OF_FLOAT32, "outputs": outputs_of_port}
