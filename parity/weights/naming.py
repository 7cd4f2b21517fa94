"""Names and layouts of parameters on the other side, as far as names and shapes determine them.

Parameters whose names differ only in the last part belong to one module, and together they determine its kind: a module
with running statistics is a batch normalization. An ambiguous parameter is a `Question`: a single matrix may belong to
a Dense layer or an Embedding. Names that no layer of the frameworks has are the module's own, and stay unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from .layouts import UNCHANGED, CheckpointLayout

Shape = tuple[int, ...]
Shapes = Mapping[str, Shape]

NORM = {"weight": "gamma", "bias": "beta"}
STATISTICS = {"running_mean": "moving_mean", "running_var": "moving_variance"}
COUNTER = "num_batches_tracked"
UNCOUNTED = "Cells count no batches"
AT_ROOT = {"moving_mean": "mean", "moving_variance": "variance"}
"""Names of the statistics if the normalization is the whole network."""

KERNEL_OF_1D = CheckpointLayout(unit_axis=2)
TRANSPOSED = CheckpointLayout(transpose=True)

_STATE = frozenset({
    "beta1_power", "beta2_power", "current_iterator_step", "global_step", "last_overflow_iterator_step",
    "learning_rate", "momentum", "scale_sense",
})  # fmt: skip
"""State of optimizers and training Cells, besides their state per Parameter with a prefix (`moments.fc.weight`)."""


@dataclass(frozen=True)
class Renaming:
    """A parameter whose counterpart is known: its name there, and the layout in Cells."""

    name: str
    other: str
    layout: CheckpointLayout = UNCHANGED


@dataclass(frozen=True)
class Drop:
    """A parameter without a counterpart."""

    name: str
    why: str


@dataclass(frozen=True)
class Question:
    """A parameter whose counterpart isn't known.

    Attributes:
        name: its name; a prefix if the whole module is in question.
        other: its likely name on the other side.
        layout: its likely layout.
        shape: its shape.
        choices: what it may be, with the entry to write.
    """

    name: str
    other: str
    layout: CheckpointLayout
    shape: Shape
    choices: tuple[str, ...]


Answer = Renaming | Drop | Question


@dataclass(frozen=True)
class Habits:
    """The habits of a framework.

    Attributes:
        name: name of the framework, or of its networks.
        to_other: yields the counterparts of torch's parameters and buffers.
        to_torch: yields the counterparts in torch.
        at_root: names there if a module is the whole network.
    """

    name: str
    to_other: Callable[[Shapes], Iterator[Answer]]
    to_torch: Callable[[Shapes], Iterator[Answer]]
    at_root: Mapping[str, str] = field(default_factory=dict)


def to_cells(shapes: Shapes) -> Iterator[Answer]:
    """Yield the counterparts in Cells of torch's parameters and buffers."""
    dense = [group for group in group_by_module(shapes).values() if len(group.get("weight", ())) == 2]
    transposes = any(_is_transposed(group) for group in dense)
    volumes = any(len(shape) == 5 for shape in shapes.values())
    for prefix, group in group_by_module(shapes).items():
        names = {leaf: f"{prefix}{leaf}" for leaf in group}
        if group.keys() >= STATISTICS.keys():
            if volumes:
                choices = f'BatchNorm3d: "{prefix}bn2d."', f'another layer: "{prefix}"'
                yield Question(prefix, f"{prefix}bn2d.", UNCHANGED, group["running_mean"], choices)
            for leaf in group.keys() & {COUNTER}:
                yield Drop(names.pop(leaf), UNCOUNTED)
            for leaf, name in names.items():
                yield Renaming(name, f"{prefix}{(NORM | STATISTICS).get(leaf, leaf)}")
            continue
        if "weight" in names:
            yield from _norm_or_product(prefix, group, transposes)
            del names["weight"]
            if is_norm(group):
                del names["bias"]
        yield from (Renaming(name, name) for name in names.values())


def _norm_or_product(prefix: str, group: Mapping[str, Shape], transposes: bool) -> Iterator[Answer]:
    """Yield the counterparts of the weight, and of the bias if its name changes."""
    choices: tuple[str, ...]
    name, shape, bias = f"{prefix}weight", group["weight"], group.get("bias")
    if is_norm(group):
        yield from (Renaming(f"{prefix}{leaf}", f"{prefix}{other}") for leaf, other in NORM.items())
    elif len(shape) == 1 and bias is None:
        guess = "w" if shape == (1,) or "act" in prefix or "relu" in prefix.lower() else "gamma"
        choices = f'normalization without bias: "{prefix}gamma"', f'PReLU: "{prefix}w"', f'your own: "{name}"'
        yield Question(name, f"{prefix}{guess}", UNCHANGED, shape, choices)
    elif len(shape) == 2 and bias is None:
        guess = "embedding_table" if sounds_like_a_table(prefix) else "weight"
        table = f'Embedding: "{prefix}embedding_table"'
        choices = table, f'Dense: "{name}"', "Dense that is (in, out) in torch: { transpose = true }"
        yield Question(name, f"{prefix}{guess}", UNCHANGED, shape, choices)
    elif len(shape) == 2 and _is_transposed(group):
        choices = "(in, out) in torch, to go by its bias: { transpose = true }", f'to be left as it is: "{name}"'
        yield Question(name, name, TRANSPOSED, shape, choices)
    elif len(shape) == 2 and transposes and shape[0] == shape[1]:
        choices = "(in, out) in torch, as others here are: { transpose = true }", f'(out, in): "{name}"'
        yield Question(name, name, TRANSPOSED, shape, choices)
    else:
        yield Renaming(name, name, KERNEL_OF_1D if len(shape) == 3 else UNCHANGED)


def is_norm(group: Mapping[str, Shape]) -> bool:
    """Whether weight and bias have the same shape, as in a normalization."""
    return bool(group.get("weight")) and group["weight"] == group.get("bias")


def _is_transposed(group: Mapping[str, Shape]) -> bool:
    """Whether the bias has the length of the weight's second axis, and not of its first."""
    rows, columns = group["weight"]
    return group.get("bias") == (columns,) and rows != columns


def sounds_like_a_table(prefix: str) -> bool:
    """Whether the name suggests an embedding; used only for proposals."""
    last = prefix.rstrip(".").rpartition(".")[2].lower()
    return "emb" in last or last in ("tok", "token", "tokens", "pos", "position", "wte", "wpe", "vocab")


def to_torch(shapes: Shapes) -> Iterator[Answer]:
    """Yield the counterparts in torch of Cells' Parameters."""
    if shapes.keys() >= set(AT_ROOT.values()) | set(NORM.values()):
        inside = {outer: inner for inner, outer in AT_ROOT.items()}
        for answer in to_torch({inside.get(name, name): shape for name, shape in shapes.items()}):
            yield replace(answer, name=AT_ROOT.get(answer.name, answer.name))
        return
    back = {other: leaf for leaf, other in (NORM | STATISTICS).items()}
    volumes = any(len(shape) == 5 for shape in shapes.values())
    flat = _all_kernels_are_flat(shapes)
    for prefix, group in group_by_module(shapes).items():
        batch_norm = group.keys() >= set(STATISTICS.values())
        if batch_norm and volumes and prefix.endswith("bn2d."):
            outer = prefix.removesuffix("bn2d.")
            choices = f'BatchNorm3d: "{outer}"', f'a layer named bn2d: "{prefix}"'
            yield Question(prefix, outer, UNCHANGED, group["moving_mean"], choices)
        for leaf, shape in group.items():
            name = f"{prefix}{leaf}"
            weight = f"{prefix}weight"
            if _is_state(name, shapes):
                yield Drop(name, "state of training")
            elif leaf == "embedding_table":
                yield Renaming(name, weight)
            elif leaf in back and (batch_norm or group.keys() >= set(NORM.values())):
                yield Renaming(name, f"{prefix}{back[leaf]}")
            elif leaf == "gamma":
                choices = f'normalization without bias: "{weight}"', f'your own: "{name}"'
                yield Question(name, weight, UNCHANGED, shape, choices)
            elif leaf in ("w", "a") and group.keys() == {leaf} and len(shape) == 1:
                yield Question(name, weight, UNCHANGED, shape, (f'PReLU: "{weight}"', f'your own: "{name}"'))
            elif leaf == "weight" and len(shape) == 4 and shape[2] == 1 and (flat or shape[3] > 1):
                choices = "Conv1d: { expand_dims = 2 }", f'Conv2d: "{name}"'
                yield Question(name, name, KERNEL_OF_1D, shape, choices)
            else:
                yield Renaming(name, name)


def _all_kernels_are_flat(shapes: Shapes) -> bool:
    """Whether all kernels have height 1, as in networks with one spatial axis."""
    kernels = [shape for name, shape in shapes.items() if name.endswith("weight") and len(shape) == 4]
    return all(shape[2] == 1 for shape in kernels)


def _is_state(name: str, shapes: Shapes) -> bool:
    """Whether the name is the state of an optimizer or a training Cell in the checkpoint."""
    prefix, _, of = name.partition(".")
    return "global_step" in shapes and (name in _STATE or (bool(prefix and of) and shapes.get(of) == shapes[name]))


def group_by_module(shapes: Shapes) -> dict[str, dict[str, Shape]]:
    """Group shapes by the name's prefix (with its dot), then by its last part."""
    groups: dict[str, dict[str, Shape]] = {}
    for name, shape in shapes.items():
        prefix, dot, leaf = name.rpartition(".")
        groups.setdefault(prefix + dot, {})[leaf] = shape
    return groups


OF_CELLS = Habits("Cells", to_cells, to_torch, AT_ROOT)
