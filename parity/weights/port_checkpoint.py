"""Conversion of a checkpoint by a map file that says what a port's tensors are made of."""

from __future__ import annotations

from pathlib import Path

from ...runtime.errors import UsageError
from .arrangements import Array
from .checkpoint_files import SAFETENSORS, write_torch
from .conversion import Conversion
from .layouts import UNCHANGED
from .map_file import WeightMap
from .naming import Drop
from .port_map import PortPlan, plan_port
from .readers.opening import open_checkpoint
from .readers.tensor import StoredCheckpoint
from .safetensors_writer import write_tensors
from .transfer import BY_MAP, Link

PORT = "the port"
UNUSED = "the map doesn't use it"


def convert_by_map(source: str, target: str, weight_map: WeightMap) -> Conversion:
    """Write a port's checkpoint, completely or not at all; of a safetensors file only one tensor is in memory.

    Args:
        source: a checkpoint, which `open_checkpoint` reads; quantized weights are dequantized.
        target: the file to write, of torch.
        weight_map: the map.

    Raises:
        UsageError: the checkpoint can't be read, the map doesn't fit it or says nothing about it, or `target` can't be
            written.
    """
    checkpoint = open_checkpoint(source)
    plan = plan_port(weight_map, {name: tensor.shape for name, tensor in checkpoint.tensors.items()})
    if not weight_map.applies_to(checkpoint.tensors):
        raise UsageError(
            f"{weight_map.where}: no line is about a tensor of the checkpoint: {target} would be a copy of it\n"
            "  what to do: parity compare REFERENCE CANDIDATE --load-weights --write-map FILE finds a map"
        )
    if not plan.assemblies:
        raise UsageError(f"{target} was not written: it would be empty, since every parameter is dropped")

    def make(name: str) -> Array:
        return plan.make(name, {s: checkpoint.tensors[s].read() for s in plan.assemblies[name].names})

    if Path(target).suffix.lower() == SAFETENSORS:
        shapes = write_tensors(target, _by_size_of_element(plan, checkpoint), make)
    else:
        arrays = {name: make(name) for name in plan.assemblies}
        shapes = {name: array.shape for name, array in arrays.items()}
        write_torch(target, arrays)
    links = tuple(
        Link(" + ".join(made.names), (name,), UNCHANGED, "name" if made.names == (name,) else "map")
        for name, made in plan.assemblies.items()
    )
    drops = *(Drop(name, BY_MAP) for name in plan.dropped), *(Drop(name, UNUSED) for name in plan.unused)
    skipped = [f"left out: {', '.join(checkpoint.skipped)}"] if checkpoint.skipped else []
    of_links = {link.torch: shapes[link.cells[0]] for link in links}
    return Conversion(False, links, (of_links, shapes), drops, (*skipped, *checkpoint.notes), PORT)


def _by_size_of_element(plan: PortPlan, checkpoint: StoredCheckpoint) -> list[str]:
    """Return the port's names, those with large elements first."""

    def size(name: str) -> int:
        return max(checkpoint.tensors[source].element_size for source in plan.assemblies[name].names)

    return sorted(plan.assemblies, key=size, reverse=True)
