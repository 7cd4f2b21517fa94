"""`RecordedSide`: a network that ran elsewhere, as a side; its runs are those that were recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property

from ....runtime.errors import UsageError
from ....runtime.visible import visible_name
from ...report.globs import list_names
from ...sides.records import INPUT_GRADIENT, Array, Records
from ...sides.run import Run
from ...sides.side import Capabilities, OwnCalls, OwnNumbers, ParameterInfo
from .habits import changed_forms, names_by_habit
from .names import NameMap
from .recording import RecordedRun, Recording
from .shards import part_of
from .sharing import NOTHING_SHARED, Sharing


@dataclass(frozen=True)
class _Naming:
    """What the reference's Cells and parameters are called in a recording.

    Attributes:
        names: their names; None if they are the same.
        habits: the names among them that were found by the habits of frameworks.
        sharing: how shared parameters are compared.
        unknown_axes: paths of Cells in which it isn't known which axis holds the channels.
    """

    names: NameMap | None
    habits: NameMap
    sharing: Sharing
    unknown_axes: list[str]


@dataclass(frozen=True, eq=False, repr=False)
class RecordedSide:
    """The runs of a recording.

    Attributes:
        name: name of the side in the report.
        recording: the recording.
        like: the reference's records, whose names of inputs and outputs are used; None for the reference itself.
        given_names: what the reference's Cells are called in the recording. Names that it doesn't have are looked for
            by the habits of frameworks.
        given_sharing: for the reference: how parameters are compared that the candidate has one for.
        tensors: the reference's parameters and buffers.
        aliases: first names of its shared parameters, by their other ones.
        perturbed: records the network again, in float64 and with the numbers in its code perturbed; None if it can't be
            run here.
    """

    name: str
    recording: Recording
    like: Records | None = None
    given_names: NameMap | None = None
    given_sharing: Sharing = NOTHING_SHARED
    tensors: Mapping[str, Array] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    perturbed: Callable[[], Recording] | None = None
    _naming: _Naming = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_naming", self._find_names())

    def _find_names(self) -> _Naming:
        if self.like is None:
            return _Naming(self.given_names, NameMap(), self.given_sharing, [])
        given = self.given_names if self.given_names is not None else NameMap()
        tensors, aliases = self.tensors, self.aliases
        habits, unknown = names_by_habit(self.like, self._shapes, self.recording, given)
        names = given.after(habits)
        sharing = Sharing.between(tensors, aliases, names, given, self.recording.parameter_names)
        return _Naming(names, habits, sharing, list(dict.fromkeys(path for path, _ in unknown)))

    @property
    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the reference's parameters and buffers, by all of their names."""
        tensors, aliases = self.tensors, self.aliases
        return {name: tensors[aliases.get(name, name)].shape for name in (*tensors, *aliases)}

    @property
    def names(self) -> NameMap | None:
        """What the reference's Cells and parameters are called in the recording; None if they have the same names."""
        return self._naming.names

    @property
    def sharing(self) -> Sharing:
        """How shared parameters are compared."""
        return self._naming.sharing

    @cached_property
    def capabilities(self) -> Capabilities:
        """What was recorded."""
        recording, working = self.recording, self.recording.working_dtype
        checks = [("meaning", "float64")] if "float64" in recording.runs else []
        checks += [("rounding", working)] if working != "float64" else []
        gradients = any(entry.role in ("parameter_gradient", INPUT_GRADIENT) for entry in recording.index.tensors)
        return Capabilities(
            tuple(checks), gradients, numbers=OwnNumbers(own_precision=False), calls=OwnCalls(recorded=True)
        )

    def run(self, run: Run) -> Records:
        """Return what was recorded in the dtype of a run."""
        if run.numbers.perturbed and self._perturbed is not None:
            return self._read(self._perturbed, run.dtype).records
        return self.recorded(run.dtype).records

    @cached_property
    def _perturbed(self) -> Recording | None:
        return None if self.perturbed is None else self.perturbed()

    @cached_property
    def recorded(self) -> Callable[..., RecordedRun]:
        """Returns the run in a dtype, of a training step."""
        return cache(self._recorded)

    def _recorded(self, dtype: str, step: int = 0) -> RecordedRun:
        if dtype not in self.recording.runs:
            if not self.recording.runs:
                raise UsageError(f"{self.recording.name} is empty: no tensor was recorded in it")
            runs = " and ".join(self.recording.runs)
            raise UsageError(f"{self.recording.name} has no run in {dtype}; it has {runs}")
        return self._read(self.recording, dtype, step)

    def _read(self, recording: Recording, dtype: str, step: int = 0) -> RecordedRun:
        run = recording.run(dtype, step, like=self.like, names=self.names, parameters=self._shapes)
        if self.like is None:
            self.sharing.merge_reference(run)
        else:
            self.sharing.merge(run)
        unknown = {path for path in self._naming.unknown_axes if path}  # the network itself differs, whatever the order
        if unknown:
            values = {key: value for key, value in run.records.values.items() if key.path not in unknown}
            run.records.values = part_of(run.records.values, values)
        return run

    @property
    def notes(self) -> list[str]:
        """Remarks for the reader of a report."""
        notes = list(self.recording.notes)
        if pairs := list(changed_forms(self._naming.habits)):
            notes.append(f"names by habit: {list_names(pairs)}")
        if self._naming.unknown_axes:
            cells = list_names([visible_name(path) or "(root)" for path in self._naming.unknown_axes])
            notes.append(
                f"which axis holds the channels is not known in {cells}: all axes are equally long, and the values "
                "agree in neither order; a map of names says it (transpose)"
            )
        return notes

    def parameters(self) -> dict[str, ParameterInfo]:
        """Return the parameters that were recorded, in the working dtype."""
        run = self.recorded(self.recording.working_dtype)
        # a recording doesn't say which of them are trained
        return {name: ParameterInfo(array, True) for name, array in run.parameters.items()}
