"""Pairs without a fault that look different."""

from __future__ import annotations

import functools
from collections.abc import Callable

from torch import nn

from .. import distributed_faults, generation_faults
from ..cases import SOUND, Case
from ..jax_port_faults import cases as jax_cases
from ..jax_port_faults import jax_pair
from ..networks import NETWORKS, Network
from ..pairs import Pair
from ..planting import Plant, copy_of
from ..port_edits import FAULTS as PORT_FAULTS
from ..port_faults import port_pair
from ..transformations import TRANSFORMATIONS
from .files import file_cases
from .rewritten import REWRITTEN

IN_TRAIN_MODE = ("copied", "classes renamed", "matrices by column")


def cases() -> list[Case]:
    """Return one case for each network and transformation, rewriting, port and file."""
    result = [
        _case(network, label, functools.partial(_transformed, NETWORKS[network], change))
        for network in NETWORKS
        for label, change in TRANSFORMATIONS.items()
    ]
    result += [
        _case(network, f"{label}, train mode", functools.partial(_transformed, NETWORKS[network], change, train=True))
        for network in NETWORKS
        for label, change in TRANSFORMATIONS.items()
        if label in IN_TRAIN_MODE
    ]
    result += [
        _case(network, label, functools.partial(_rewritten, NETWORKS[network], plant))
        for network, label, plant in REWRITTEN
    ]
    ports = dict.fromkeys(fault.network for fault in PORT_FAULTS)
    result += [_case(network, "port", functools.partial(port_pair, network)) for network in ports]
    ports_to_jax = dict.fromkeys(case.network for case in jax_cases())
    result += [_case(network, "port to JAX", functools.partial(jax_pair, network)) for network in ports_to_jax]
    return [*result, *file_cases(), *generation_faults.sound_cases(), *distributed_faults.sound_cases()]


def _case(network: str, label: str, pair: Callable[[], Pair]) -> Case:
    return Case(f"{network}/{label}", network, SOUND, (), label, (), (), pair)


def _transformed(network: Network, change: Callable[[nn.Module], nn.Module], train: bool = False) -> Pair:
    reference = network.module()
    return Pair(reference, change(copy_of(reference)).eval(), network.inputs(), train=train)


def _rewritten(network: Network, plant: Plant) -> Pair:
    reference = network.module()
    candidate = copy_of(reference)
    plant(candidate)
    return Pair(reference, candidate, network.inputs())
