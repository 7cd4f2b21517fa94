"""`check_checkpoint`: compares two checkpoints, without their models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path

import torch

from ..inputs.model_file import load_candidate
from ..pairing.by_structure.ports import names_of_tied
from ..report.checkpoint_report import CheckpointReport
from ..sides.opening import require_module
from ..support.progress import NoProgress, Progress
from ..weights.audit.derivation import derive
from ..weights.audit.findings import findings, ranked
from ..weights.audit.findings.by_model import ModelTensors, unlike_the_model
from ..weights.map_file import read_map
from ..weights.port_map import plan_port
from ..weights.readers.opening import open_checkpoint
from ..weights.readers.tensor import StoredCheckpoint, StoredTensor


def check_checkpoint(
    before: str | PathLike[str],
    after: str | PathLike[str],
    others: Iterable[str | PathLike[str]] = (),
    progress: Progress | None = None,
    *,
    map: str | PathLike[str] | None = None,
    model: str | torch.nn.Module | None = None,
) -> CheckpointReport:
    """Derive what became of each tensor of a checkpoint in another, and say what is wrong.

    Args:
        before: the file or folder of the checkpoint that was converted.
        after: the file or folder of what it was converted to.
        others: files or folders of further checkpoints of which tensors may be made: adapters that were merged, or
            models that were averaged. Where a name is in several, it gets its file's name and a colon before it.
        progress: receives the stages.
        map: a map file that says what the tensors of `after` are made of; others than these are wrong then, and what it
            says is meant.
        model: a model file, a name such as "hf:BertModel" or a module that is to load `after`: parameters that it
            wouldn't get from there are wrong. Its values aren't read.

    Raises:
        UsageError: one of them can't be read, the map doesn't fit `before`, or there is no torch module in `model`.
    """
    progress = progress or NoProgress()
    opened = _together([open_checkpoint(fspath(path)) for path in (before, *others)]), open_checkpoint(fspath(after))
    plan = None
    if map is not None:
        shapes = {name: tensor.shape for name, tensor in opened[0].tensors.items()}
        plan = plan_port(read_map(fspath(map)), shapes)
    progress.stage("tensors", len(opened[0].tensors) + 2 * len(opened[1].tensors))
    derivation = derive(*opened, advance=progress.advance, plan=plan)
    every = findings(derivation)
    if model is not None:
        every = ranked([*every, *unlike_the_model(opened[1], _tensors_of(model))])
    return CheckpointReport(*opened, derivation, every)


def _tensors_of(model: str | torch.nn.Module) -> ModelTensors:
    """Return what the state dict of a model has."""
    network = load_candidate(model).network if isinstance(model, str) else model
    require_module(network, "takes a checkpoint")
    shapes = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items() if hasattr(tensor, "shape")}
    parameters = frozenset(dict(network.named_parameters(remove_duplicate=False)))
    return ModelTensors(type(network).__name__, shapes, parameters, names_of_tied(network))


def _together(checkpoints: Sequence[StoredCheckpoint]) -> StoredCheckpoint:
    """Return a checkpoint with the tensors of several."""
    first, *others = checkpoints
    tensors: dict[str, StoredTensor] = dict(first.tensors)
    for checkpoint in others:
        for name, tensor in checkpoint.tensors.items():
            unique = f"{Path(checkpoint.path).stem}:{name}" if name in first.tensors else name
            tensors[unique] = replace(tensor, name=unique)
    notes = tuple(note for checkpoint in checkpoints for note in checkpoint.notes)
    skipped = tuple(entry for checkpoint in checkpoints for entry in checkpoint.skipped)
    return replace(first, tensors=tensors, notes=notes, skipped=skipped)
