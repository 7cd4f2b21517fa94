"""The faults in copies of torch modules, in a file for each network."""

from __future__ import annotations

import importlib
import pkgutil

from ..cases import Case, Fault
from ..networks import NETWORKS, Network
from ..pairs import Pair
from ..planting import copy_of


def faults_of(network: str) -> list[Fault]:
    """Return the faults of a network, in the order of its file."""
    faults: list[Fault] = importlib.import_module(f"{__name__}.{network}").FAULTS
    return faults


def faulty_pair(network: Network, *faults: Fault) -> Pair:
    """Return a network with a copy that has some faults."""
    reference = network.module()
    candidate = copy_of(reference)
    for fault in faults:
        fault.plant(candidate)
    return Pair(reference, candidate, network.inputs(), train=any(fault.train for fault in faults))


def cases() -> list[Case]:
    """Return one case for each fault."""
    result = []
    for name in sorted(file.name for file in pkgutil.iter_modules(__path__)):
        for fault in faults_of(name) if name in NETWORKS else ():
            result.append(
                Case(
                    f"{name}/{fault.label}", name, "torch", fault.cells, fault.cause, (fault.expected,), fault.words,
                    lambda name=name, fault=fault: faulty_pair(NETWORKS[name], fault),
                )
            )  # fmt: skip
    return result
