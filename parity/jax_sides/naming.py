"""What torch's modules and parameters are called in a network of JAX, by the habits of Flax and Equinox.

`layers_0` and `layers.0` are the same place. A Dense layer's `kernel` is a Linear's `weight`, transposed, and that of a
convolution has its output channels last. Images have their channels last, which the shapes of outputs show.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..recordings.names import Line, NameMap
from ..recordings.recording import Recording
from ..recordings.views import WHOLE, View
from ..sides.records import INPUT, OUTPUT, Records

LEAVES = {
    "weight": ("weight", "kernel", "scale", "embedding"),
    "running_mean": ("running_mean", "mean"),
    "running_var": ("running_var", "var"),
}
"""Names of parameters and buffers in JAX, by torch's."""


def names_by_habit(truth: Records, parameters: Mapping[str, tuple[int, ...]], recording: Recording) -> NameMap:
    """Return a line for each module and parameter that is called otherwise, or has other axes.

    Args:
        truth: the module's records.
        parameters: the shapes of its parameters and buffers.
        recording: the recording of the other network.
    """
    entries = recording.index.tensors
    cells = dict.fromkeys(entry.cell for entry in entries if entry.role in (INPUT, OUTPUT))
    shapes = {(e.cell, e.role): e.shape for e in reversed(entries) if e.call == 0 and e.role in (INPUT, OUTPUT)}
    by_place = {_place(cell): cell for cell in cells}
    lines = []
    for call in truth.calls:
        theirs = by_place.get(_place(call.path))
        if theirs is None or call.index:
            continue
        output, given = (_view(_shape(truth, call.path, role), shapes.get((theirs, role))) for role in (OUTPUT, INPUT))
        if theirs != call.path or not (output.is_whole and given.is_whole):
            lines.append(Line(call.path, theirs, output, given, "the names by habit"))
    named = {entry.slot: entry.shape for entry in entries if entry.role == "parameter"}
    by_name = {_place(name): name for name in named}
    own = []
    for name, shape in parameters.items():
        path, _, leaf = name.rpartition(".")
        candidates = (by_name.get(_place(f"{path}.{other}" if path else other)) for other in LEAVES.get(leaf, (leaf,)))
        other = next((candidate for candidate in candidates if candidate is not None), None)
        if other is not None:
            view = _of_kernel(shape) if other.rpartition(".")[2] == "kernel" else WHOLE
            own.append(Line(name, other, view, WHOLE, "the names by habit"))
    return NameMap(tuple(lines), tuple(own), "the names by habit")


def _place(name: str) -> str:
    """Return a name in which numbers are parts of their own."""
    return re.sub(r"_([0-9]+)(?=\.|$)", r".\1", name)


def _shape(truth: Records, path: str, role: str) -> tuple[int, ...] | None:
    return next((x.shape for key, x in truth.values.items() if key[:3] == (path, 0, role)), None)


def _view(ours: tuple[int, ...] | None, theirs: tuple[int, ...] | None) -> View:
    """Return the view that moves the channels, which are last, to the second axis, if only that gives our shape."""
    if ours is None or theirs is None or ours == theirs or len(ours) != len(theirs) or len(ours) < 3:
        return WHOLE
    rank = len(ours)
    order = (0, rank - 1, *range(1, rank - 1))
    return View((), order) if tuple(theirs[axis] for axis in order) == ours else WHOLE


def _of_kernel(shape: tuple[int, ...]) -> View:
    """Return the view of a kernel as torch's weight: (spatial axes, inputs, outputs) as (outputs, inputs, spatial)."""
    rank = len(shape)
    return View((), (rank - 1, rank - 2, *range(rank - 2)))
