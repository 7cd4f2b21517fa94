"""What a model would make of a checkpoint: parameters that stay at their initial values, and tensors that it ignores.

`load_state_dict(strict=False)` and transformers' `from_pretrained` do both without an error.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ...readers.tensor import StoredCheckpoint
from .finding import LOOK, WRONG, Finding, listed


@dataclass(frozen=True)
class ModelTensors:
    """The tensors that a model's state dict has.

    Attributes:
        class_name: name of the model's class.
        shapes: shapes by name.
        parameters: names of the parameters; the others are buffers.
        ties: the names of each tied parameter, by any of them.
    """

    class_name: str
    shapes: Mapping[str, tuple[int, ...]]
    parameters: frozenset[str]
    ties: Mapping[str, list[str]]


def unlike_the_model(checkpoint: StoredCheckpoint, model: ModelTensors) -> Iterator[Finding]:
    """Yield the tensors of a checkpoint that a model can't load or ignores, and what it doesn't get from there."""
    stored = checkpoint.tensors
    for name in (name for name in model.shapes if name in stored):
        if stored[name].shape != model.shapes[name]:
            yield Finding(
                WRONG, "shape", (name,),
                f"{listed([name])} has shape {list(stored[name].shape)}, and {list(model.shapes[name])} in the model",
                "a tensor of another shape isn't loaded",
                "convert it to the model's shape, or make the model with the sizes of the checkpoint",
            )  # fmt: skip
    missing = [n for n in model.shapes if stored.keys().isdisjoint({n, *model.ties.get(n, ())})]
    ignored = [name for name in stored if name not in model.shapes]
    of_class = _of_class(checkpoint, model)
    if moved := _prefix(missing, ignored):
        prefix, is_in_checkpoint, count = moved
        sides = ("the checkpoint", "the model") if is_in_checkpoint else ("the model", "the checkpoint")
        owner = "{} has and {} lacks".format(*sides)
        yield Finding(
            WRONG, "prefix", tuple(missing),
            f"{count} names differ by the prefix {listed([prefix])}, which {owner}",
            f"these parameters of the model would keep their initial values: {listed(missing)}{of_class}",
            "load it into the class that it was saved from, or rename the tensors",
        )  # fmt: skip
        return
    kept = [name for name in missing if name not in model.parameters]
    lost = [name for name in missing if name in model.parameters]
    for rank, names, what in (
        (WRONG, lost, "parameter" + "s" * (len(lost) > 1)),
        (LOOK, kept, "buffer" + "s" * (len(kept) > 1)),
    ):
        if names:
            yield Finding(
                rank, "not loaded", tuple(names),
                f"the model's {what} {listed(names)} would keep {'its' if len(names) == 1 else 'their'} initial values",
                f"the checkpoint has nothing of {'that name' if len(names) == 1 else 'these names'}{of_class}",
                "add them to the conversion, or tie them in the model; then load with strict=True",
            )  # fmt: skip
    if ignored:
        yield Finding(
            LOOK, "ignored", tuple(ignored),
            f"the model would ignore {listed(ignored)}",
            f"it has no parameter or buffer of {'that name' if len(ignored) == 1 else 'these names'}{of_class}",
            "give the model's name, or leave out of the checkpoint what isn't needed",
        )  # fmt: skip


def _prefix(missing: list[str], ignored: list[str]) -> tuple[str, bool, int] | None:
    """Return the prefix by which most names differ, whether the checkpoint has it, and the number of these names."""
    counts: Counter[tuple[str, bool]] = Counter()
    for own, others, is_in_checkpoint in ((missing, ignored, True), (ignored, missing, False)):
        known = set(own)
        for name in others:
            parts = name.split(".")
            counts.update(
                (".".join(parts[:n]) + ".", is_in_checkpoint)
                for n in range(1, min(len(parts), 4))
                if ".".join(parts[n:]) in known
            )
    key = max(counts, key=counts.__getitem__, default=None)
    return (*key, counts[key]) if key is not None and 2 * counts[key] > len(missing) else None


def _of_class(checkpoint: StoredCheckpoint, model: ModelTensors) -> str:
    """Return what the configuration beside the checkpoint says of the model's class, if that is another."""
    try:
        names = json.loads(checkpoint.metadata.get("config", "{}")).get("architectures")
    except (ValueError, AttributeError, RecursionError):
        return ""
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or model.class_name in names:
        return ""
    return (
        f"; config.json beside it names {listed(names)}, and the model is a {listed([model.class_name])}"
        if names
        else ""
    )
