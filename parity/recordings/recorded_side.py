"""`RecordedSide`: a network that ran elsewhere, as a side; its runs are those that were recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType

from ...runtime.errors import UsageError
from ...runtime.visible import visible_name
from ..report.globs import list_names
from ..sides.records import INPUT_GRADIENT, Array, Records
from ..sides.run import Run
from ..sides.side import Capabilities, OwnCalls, OwnNumbers, ParameterInfo
from .habits import changed_forms, names_by_habit
from .names import NameMap
from .recording import RecordedRun, Recording
from .shards import part_of
from .sharing import NOTHING_SHARED, Sharing


class RecordedSide:
    """The runs of a recording.

    Args:
        name: name of the side in the report.
        recording: the recording.
        like: the reference's records, whose names of inputs and outputs are used; None for the reference itself.
        names: what the reference's Cells are called in the recording. Names that it doesn't have are looked for by
            the habits of frameworks.
        parameters: the reference's parameters and buffers.
        aliases: first names of its shared parameters, by their other ones.
        sharing: for the reference: how parameters are compared that the candidate has one for.
        perturbed: records the network again, in float64 and with the numbers in its code perturbed; None if it can't be
            run here.
    """

    def __init__(
        self,
        name: str,
        recording: Recording,
        like: Records | None = None,
        names: NameMap | None = None,
        sharing: Sharing = NOTHING_SHARED,
        parameters: Mapping[str, Array] = MappingProxyType({}),
        aliases: Mapping[str, str] = MappingProxyType({}),
        perturbed: Callable[[], Recording] | None = None,
    ) -> None:
        self.name = name
        self.recording = recording
        self.like = like
        self.parameter_names = [*parameters, *aliases]
        self.names, self.habits, self.sharing = names, NameMap(), sharing
        self.unknown_axes: list[str] = []
        if like is not None:
            given = names if names is not None else NameMap()
            shapes = {name: parameters[aliases.get(name, name)].shape for name in self.parameter_names}
            self.habits, unknown = names_by_habit(like, shapes, recording, given)
            self.unknown_axes = list(dict.fromkeys(path for path, _ in unknown))
            self.names = given.after(self.habits)
            self.sharing = Sharing.between(parameters, aliases, self.names, given, recording.parameter_names)
        working = recording.working_dtype
        checks = [("meaning", "float64")] if "float64" in recording.runs else []
        checks += [("rounding", working)] if working != "float64" else []
        gradients = any(one.role in ("parameter_gradient", INPUT_GRADIENT) for one in recording.index.tensors)
        self.capabilities = Capabilities(
            tuple(checks), gradients, numbers=OwnNumbers(own_precision=False), calls=OwnCalls(recorded=True)
        )
        self.recorded = cache(self._recorded)
        self.has_perturbed_run = perturbed is not None
        self._perturbed = cache(perturbed) if perturbed is not None else None

    def run(self, run: Run) -> Records:
        """Return what was recorded in the dtype of a run."""
        if run.numbers.perturbed and self._perturbed is not None:
            return self._read(self._perturbed(), run.dtype).records
        return self.recorded(run.dtype).records

    def _recorded(self, dtype: str, step: int = 0) -> RecordedRun:
        if dtype not in self.recording.runs:
            if not self.recording.runs:
                raise UsageError(f"{self.recording.name} is empty: no tensor was recorded in it")
            runs = " and ".join(self.recording.runs)
            raise UsageError(f"{self.recording.name} has no run in {dtype}; it has {runs}")
        return self._read(self.recording, dtype, step)

    def _read(self, recording: Recording, dtype: str, step: int = 0) -> RecordedRun:
        run = recording.run(dtype, step, like=self.like, names=self.names, parameters=self.parameter_names)
        if self.like is None:
            self.sharing.merge_reference(run)
        else:
            self.sharing.merge(run)
        unknown = {path for path in self.unknown_axes if path}  # the network itself differs, whatever the order
        if unknown:
            values = {key: value for key, value in run.records.values.items() if key.path not in unknown}
            run.records.values = part_of(run.records.values, values)
        return run

    @property
    def notes(self) -> list[str]:
        """Remarks for the reader of a report."""
        notes = list(self.recording.notes)
        if pairs := list(changed_forms(self.habits)):
            notes.append(f"names by habit: {list_names(pairs)}")
        if self.unknown_axes:
            cells = list_names([visible_name(path) or "(root)" for path in self.unknown_axes])
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
