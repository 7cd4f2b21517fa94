"""What torch's modules and parameters are called in another framework's recording, by the habits of that framework.

`layers_0` and `layers.0` are the same place. A norm's `weight` is a `scale` in Flax and a `gamma` in MindSpore. A Dense
layer's `kernel` in Flax is a Linear's `weight`, transposed; that of a convolution has its output channels last.
Images have their channels last in JAX, which their shapes show, or their values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache

from ....runtime.visible import visible_name
from ...correspondence.name_patterns import without_numbers
from ...sides.records import INPUT, OUTPUT, Array, Records
from .axes import Pair, Place, views_of
from .index import NAMED_ROLES
from .names import Line, NameMap
from .recording import Recording
from .views import WHOLE, View

LEAVES = {
    "weight": ("kernel", "scale", "embedding", "gamma", "embedding_table"),
    "bias": ("beta",),
    "running_mean": ("mean", "moving_mean"),
    "running_var": ("var", "moving_variance"),
}
"""Names of parameters and buffers in Flax and MindSpore, by torch's."""
WHERE = "the names by habit"


def names_by_habit(
    truth: Records, parameters: Mapping[str, tuple[int, ...]], recording: Recording, names: NameMap
) -> tuple[NameMap, list[Place]]:
    """Return a line for each module and parameter that is called otherwise, or has other axes.

    The second result are the places whose order of axes isn't known.

    Args:
        truth: the reference's records.
        parameters: the shapes of its parameters and buffers.
        recording: the recording of the other network.
        names: what is known of the names; where it gives a part or an order of axes, nothing is added.
    """
    entries = recording.index.tensors
    cells = dict.fromkeys(entry.cell for entry in entries if entry.role in (INPUT, OUTPUT))
    shapes = {(e.cell, e.role): e.shape for e in reversed(entries) if e.call == 0 and e.role in (INPUT, OUTPUT)}
    by_place = {_place(cell): cell for cell in cells}
    own: dict[Place, Array] = {}
    for key, array in truth.values.items():
        if key.call == 0 and key.kind in (INPUT, OUTPUT):
            own.setdefault((key.path, key.kind), array)
    value_of = _values(recording)
    names_there: dict[str, str] = {}
    pairs: dict[Place, Pair] = {}
    for path in dict.fromkeys(call.path for call in truth.calls):
        known = names.cell(path)
        recorded_cell = known.name if known.name in cells else by_place.get(_place(known.name))
        if recorded_cell is None or known.inputs is None or not (known.outputs.is_whole and known.inputs.is_whole):
            continue
        names_there[path] = recorded_cell
        for role in (OUTPUT, INPUT):
            if (path, role) in own and (recorded_cell, role) in shapes:
                pairs[path, role] = Pair(own[path, role], shapes[recorded_cell, role], value_of(recorded_cell, role))
    views, unknown = views_of(pairs)
    of_cells = []
    for path, recorded_cell in names_there.items():
        known = names.cell(path)
        output, given = (views.get((path, role), WHOLE) for role in (OUTPUT, INPUT))
        if recorded_cell != known.name or not (output.is_whole and given.is_whole):
            of_cells.append(Line(path, recorded_cell, output, given, WHERE))
    recorded = {entry.slot: entry.shape for entry in entries if entry.role in NAMED_ROLES}
    by_place_there = names_by_place(recorded)
    of_parameters = []
    for name, shape in parameters.items():
        known = names.parameter(name)
        around = names.cell(name.rpartition(".")[0])
        if known.name in recorded or not (known.outputs.is_whole and around.outputs.is_whole):
            continue
        recorded_name = parameter_by_habit(known.name, by_place_there)
        if recorded_name is not None:
            of_parameters.append(Line(name, recorded_name, _of_parameter(recorded_name, shape), WHOLE, WHERE))
    return NameMap(tuple(of_cells), tuple(of_parameters), WHERE), unknown


def names_by_place(names: Iterable[str]) -> dict[str, str]:
    """Return names by their places, which are the same for `layers_0` and `layers.0`."""
    return {_place(name): name for name in names}


def parameter_by_habit(name: str, by_place: Mapping[str, str]) -> str | None:
    """Return what a parameter or buffer of torch's is called among names by their places; None if it isn't there."""
    path, _, leaf = name.rpartition(".")
    places = (_place(f"{path}.{other}" if path else other) for other in (leaf, *LEAVES.get(leaf, ())))
    return next((by_place[place] for place in places if place in by_place), None)


def changed_forms(names: NameMap) -> Iterable[str]:
    """Return how names and axes change, once for each form: `layer.* = layer_*`, `*.weight = *.kernel`."""
    forms: list[str] = []
    prefixes: list[tuple[str, str]] = []
    for line in names.cells:
        reference, candidate = map(_numbered, (line.reference, line.candidate))
        if any(reference.startswith(a) and candidate == b + reference.removeprefix(a) for a, b in prefixes):
            continue
        if reference != candidate:
            prefixes.append((f"{reference}.", f"{candidate}."))
        forms.append(f"{reference} = {candidate}" if reference != candidate else "images with their channels last")
    for line in names.parameters:
        reference, candidate = (_numbered(name).rpartition(".")[2] for name in (line.reference, line.candidate))
        if reference != candidate:
            forms.append(f"*.{reference} = *.{candidate}")
    return dict.fromkeys(forms)


def _numbered(name: str) -> str:
    """Return a name as it is shown, with a `*` in place of numbers."""
    return without_numbers(visible_name(name))


def _place(name: str) -> str:
    """Return a name in which numbers are parts of their own."""
    return re.sub(r"_([0-9]+)(?=\.|$)", r".\1", name)


def _values(recording: Recording) -> Callable[[str, str], Callable[[], Array | None]]:
    """Return a function of a Cell's name there and a role, whose result reads the first tensor when it is called."""

    @cache
    def first() -> dict[Place, Array]:
        dtype = "float64" if "float64" in recording.runs else recording.working_dtype
        arrays: dict[Place, Array] = {}
        for key, array in recording.run(dtype).records.values.items():
            if key.call == 0:
                arrays.setdefault((key.path, key.kind), array)
        return arrays

    return lambda cell, role: lambda: first().get((cell, role))


def _of_parameter(name: str, shape: tuple[int, ...]) -> View:
    """Return the view of a parameter as torch's, which has this shape.

    Flax's kernels have the axes (spatial axes, inputs, outputs), torch's weights (outputs, inputs, spatial axes).
    """
    if name.rpartition(".")[2] != "kernel":
        return WHOLE
    rank = len(shape)
    return View((), (rank - 1, rank - 2, *range(rank - 2)))
