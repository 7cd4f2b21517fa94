"""Faults in ports: the file of a port with something written differently, compared with the torch module."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch

from cellbridge.parity.correspondence.cells import pair_up
from cellbridge.parity.sides.known_frameworks import framework_of
from cellbridge.parity.weights.mapping import Weights, carry
from cellbridge.runtime import Tensor, nn

from .cases import Case
from .networks import NETWORKS
from .pairs import Pair
from .port_edits import FAULTS, PortFault
from .running import all_values, arrays_in, run_cell
from .source_edits import edited


def cases() -> list[Case]:
    """Return one case for each fault."""
    return [
        Case(
            f"{fault.network}/{fault.label}", fault.network, "port", fault.cells, fault.cause, (fault.expected,),
            fault.words, functools.partial(port_pair, fault.network, fault), fault.same_in_float64,
        )
        for fault in FAULTS
    ]  # fmt: skip


def port_pair(network: str, fault: PortFault | None = None) -> Pair:
    """Return a module and its port, which has a fault, if one is given."""
    one = NETWORKS[network]
    port = edited(f"{__package__}.ports", network, [(fault.old, fault.new)] if fault is not None else []).build()
    train = fault is not None and fault.train
    options = {"with_weights": functools.partial(_with_weights, one.module()), "difference": _difference}
    return Pair(one.module(), port, one.inputs(), train=train, options=options)


def _weights(module: torch.nn.Module, cell: nn.Cell) -> Weights:
    return carry(module, cell, pair_up(module, cell, None), None, torch.float32)


def _with_weights(module: torch.nn.Module, cell: nn.Cell) -> nn.Cell:
    """Load the module's weights into the port, as a checkpoint would."""
    weights = _weights(module, cell)
    for entry in weights.unique():
        value = np.asarray(weights.value(entry)).astype(np.float32).reshape(entry.parameter.shape)
        entry.parameter.set_data(Tensor(value))
    return cell


def _difference(pair: Pair) -> float:
    """The largest relative difference of outputs and moving statistics in float64; infinite if a shape differs."""
    weights = _weights(pair.reference, pair.candidate)
    framework = framework_of(pair.candidate)
    assert framework is not None
    values = {id(entry.parameter): np.asarray(weights.value(entry)) for entry in weights.unique()}
    there = all_values(pair.reference, pair.args, pair.train)
    outputs = [v.numpy() for name, v in there.items() if name.startswith("output") and v is not None]
    args = tuple(a.double() if a.is_floating_point() else a for a in pair.args)
    with framework.prepare(pair.candidate, values, "float64", pair.train, False):
        try:
            here = arrays_in(run_cell(pair.candidate, args, pair.train))
        except (ValueError, TypeError, RuntimeError):
            return float("inf")
        arrays: dict[int, Any] = {
            id(entry.parameter): np.array(framework.array(entry.parameter)) for entry in weights.unique()
        }
        buffers = {n: a for n, a in weights.to_module(arrays).items() if n not in weights.trainable}
    both = list(zip(outputs, here, strict=True))
    if pair.train:
        both += [(there[f"buffer {name}"].numpy(), array) for name, array in buffers.items()]
    if any(a.shape != b.shape for a, b in both):
        return float("inf")
    distances = [float(np.abs(a - b).max() / np.abs(a).max()) for a, b in both]
    return max([*distances, float(bool(weights.mismatches))])
