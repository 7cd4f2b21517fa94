"""`RecordedNetwork`: one run of a recording with the network's program, with which causes are looked for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ....recorder import PROGRAM
from ....runtime import tree
from ....runtime.errors import ConversionError
from ....runtime.ir.program import Program
from ....runtime.ir.types import Buffer
from ....runtime.storage.programs import load, unknown
from ....runtime.visible import visible_name
from ...sides.interpreter_side import InterpreterSide
from ...sides.records import INPUT, Array, Key, Records
from ...sides.run import Run
from ...sides.side import Capabilities, ParameterInfo
from ...sides.slots import reference_slot
from .names import NameMap
from .recorded_side import RecordedSide


@dataclass(frozen=True, eq=False)
class RecordedNetwork:
    """One step of one run of a recording, as a side that has a program if the recording does.

    Attributes:
        side: the recording.
        dtype: dtype of the run.
        step: number of the training step.
        paths: the Cells whose program is needed. Parameters of others are NaN, so that they take no memory.
    """

    side: RecordedSide
    dtype: str
    step: int
    paths: Collection[str]

    @property
    def name(self) -> str:
        """The recording's name."""
        return self.side.name

    @property
    def capabilities(self) -> Capabilities:
        """Those of the recording."""
        return self.side.capabilities

    @property
    def has_program(self) -> bool:
        """Whether the recording has a program whose Cells have the reference's names."""
        return self.side.names in (None, NameMap()) and self._file.exists()

    @property
    def _file(self) -> Path:
        return self.side.recording.index.path / PROGRAM

    @property
    def _records(self) -> Records:
        return self.side.recorded(self.dtype, self.step).records

    def run(self, run: Run) -> Records:
        """Return what was recorded."""
        return self._records

    def parameters(self) -> dict[str, ParameterInfo]:
        """Return the parameters that were recorded of the Cells that are needed."""
        return {
            name: ParameterInfo(array, True)  # a recording doesn't say which of them are trained
            for name, array in dict.items(self.side.recorded(self.dtype, self.step).parameters)
            if name.rpartition(".")[0] in self.paths
        }

    def in_interpreter(self, run: Run | None = None) -> InterpreterSide:
        """Return the program on the recorded inputs.

        Raises:
            ConversionError: the program is of another network than the recorded one.
            ProgramError: the file is damaged.
        """
        program = self._with_data(load(self._file, parameters=False))
        args, kwargs = tree.unflatten(program.arguments, self._inputs(program))
        return InterpreterSide(self.name, program, args, kwargs, working_dtype=self.side.recording.working_dtype)

    def _with_data(self, program: Program) -> Program:
        """Return the program with the recorded parameters and buffers of this step."""
        inside = tuple(f"{path}." for path in self.paths if path)
        calls = {
            number
            for number, call in enumerate(program.calls)
            if call.path in self.paths or call.path.startswith(inside)
        }
        used = {value for node in program.nodes if node.cell in calls for value in node.inputs}
        recorded = self.side.recorded(self.dtype, self.step).parameters
        parameters = {
            name: replace(p, data=_of_shape(name, recorded[name], p.data))
            for name, p in program.parameters.items()
            if p.value in used and name in recorded
        }
        return program.replace(
            parameters=program.parameters | parameters, buffers=program.buffers | self._buffers(program.buffers)
        )

    def _buffers(self, buffers: Mapping[str, Buffer]) -> dict[str, Buffer]:
        """Return the buffers that the steps before have changed."""
        if not self.step:
            return {}
        before = self.side.recorded(self.dtype, self.step - 1).records.state.updates
        return {
            name: replace(b, data=_of_shape(name, before[name], b.data).astype(b.data.dtype))
            for name, b in buffers.items()
            if name in before
        }

    def _inputs(self, program: Program) -> list[Array]:
        """Return the recorded inputs of the network, in the order of the program's; NaN for one that wasn't recorded.

        A Cell that depends on such an input isn't what the reference recorded, and nothing is proved with it.
        """
        marks = [n for n in program.nodes if n.op == "boundary" and n.attributes["call"] == 0]
        marks = [node for node in marks if node.attributes["kind"] == INPUT]
        own, records = [str(node.attributes["slot"]) for node in marks], self._records
        slots = {node.inputs[0]: slot for node, slot in zip(marks, own, strict=True)}
        arrays = []
        for value in program.inputs:
            name = reference_slot(slots.get(value, ""), own, records.slots.get(("", 0, INPUT), own))
            array = records.values.get(Key("", 0, INPUT, name))
            arrays.append(unknown(value) if array is None else np.asarray(array).astype(value.dtype, copy=False))
        return arrays


def _of_shape(name: str, array: Array, like: Array) -> Array:
    """Return a recorded array; raise `ConversionError` unless it has the shape that the program says."""
    if array.shape != like.shape:
        raise ConversionError(
            f"{PROGRAM} is of another network: {visible_name(name)} has the shape {list(like.shape)} there, and "
            f"{list(array.shape)} in the recording"
        )
    return array
