"""`Case`: two programs that should compute the same from the same tensors, and don't."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ....runtime.errors import ConversionError
from ....runtime.ir.program import Program
from ....runtime.ir.types import Buffer, CellCall, Node, ProgramParameter, Type, Value, is_floating
from ....runtime.programs.interpreter import execute
from ....runtime.tree import positional_arguments, sequence
from ...sides.records import INPUT_GRADIENT, Array, Key
from ..cell_program import CellProgram
from ..rebuilding import append, rebuild
from .unrolling import without_control_flow

INPUT, WEIGHT, BUFFER, CONSTANT = "x", "w", "b", "c"
"""What a tensor is, which is also the first letter of its name."""


@dataclass(frozen=True)
class Tensor:
    """A tensor of a case: its numbers, and what it was in the network, as text for people."""

    data: Array
    origin: str


@dataclass(frozen=True)
class Case:
    """Two programs of one output each, in float64, whose inputs have the names of tensors.

    Attributes:
        reference: the reference's program. It has neither parameters nor buffers: all tensors are inputs.
        candidate: the candidate's.
        tensors: the tensors by name, `x0`, `w0`, `b0`, `c0`, ...; names in both programs are the same tensor.
        gradients: whether it is the gradients that differ.
    """

    reference: Program
    candidate: Program
    tensors: dict[str, Tensor]
    gradients: bool

    @property
    def programs(self) -> tuple[Program, Program]:
        """Both programs."""
        return self.reference, self.candidate

    def arrays(self, program: Program) -> list[Array]:
        """The tensors that a program takes, in order."""
        return [self.tensors[value.name].data for value in program.inputs]

    def leaves(self) -> list[str]:
        """The tensors whose gradients are compared: the inputs and weights that both programs take."""
        candidate_names = {value.name for value in self.candidate.inputs}
        return [
            value.name
            for value in self.reference.inputs
            if value.name in candidate_names and value.name[0] in (INPUT, WEIGHT) and is_floating(value.dtype)
        ]

    def without_unused(self) -> Case:
        """The case with only the tensors that a program takes, numbered from 0 for each kind."""
        input_names = list(dict.fromkeys(value.name for program in self.programs for value in program.inputs))
        names: dict[str, str] = {}
        for name in input_names:
            names[name] = f"{name[0]}{sum(other[0] == name[0] for other in names)}"
        reference, candidate = (_renamed(program, names) for program in self.programs)
        return Case(reference, candidate, {names[name]: self.tensors[name] for name in input_names}, self.gradients)

    def cotangent(self, shape: Sequence[int]) -> Array:
        """The gradient that is sent back from the output: standard normal numbers, always the same."""
        return np.asarray(np.random.default_rng(0).standard_normal(tuple(shape)))


@dataclass
class _Names:
    """Gives tensors their names; the same tensor of two programs gets the same name."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    _names: dict[Any, str] = field(default_factory=dict)

    def name(self, kind: str, key: object, array: Array, origin: str, existing: Mapping[str, Any]) -> str:
        """Return the name of a tensor.

        Args:
            kind: `INPUT`, `WEIGHT`, `BUFFER` or `CONSTANT`.
            key: what is equal for the same tensor in both programs, besides its numbers.
            array: its numbers.
            origin: what it is.
            existing: the names of the other tensors of the same program.
        """
        content = kind, key, array.dtype, array.shape, hashlib.sha256(array.tobytes()).digest()
        number = 0
        while self._names.get((content, number)) in existing:
            number += 1
        if (content, number) not in self._names:
            name = f"{kind}{sum(origin[0] == kind for origin in self.tensors)}"
            self._names[content, number] = name
            self.tensors[name] = Tensor(array, origin)
        return self._names[content, number]


def cases(reference: CellProgram, candidate: CellProgram) -> Iterator[Case]:
    """Yield a case for each output and buffer update that the programs of a Cell have in common, then for gradients.

    Raises:
        ConversionError: a program has sub-programs that can't be written out.
    """
    names = _Names()
    trained = [{name for name, p in cell.program.parameters.items() if p.trainable} for cell in (reference, candidate)]
    frozen = set(reference.program.parameters) & set(candidate.program.parameters) & (trained[0] ^ trained[1])
    plain_reference, plain_candidate = (
        _plain(cell, names, frozen - parameters)
        for cell, parameters in zip((reference, candidate), trained, strict=True)
    )
    for gradients in (False, True):
        for key, value in plain_reference.outputs.items():
            if key in plain_candidate.outputs and (is_floating(value.dtype) or not gradients):
                pair = part(plain_reference.program, value), part(plain_candidate.program, plain_candidate.outputs[key])
                yield Case(*pair, names.tensors, gradients)


@dataclass(frozen=True)
class _Plain:
    program: Program
    outputs: dict[object, Value]


def _plain(cell: CellProgram, names: _Names, detached: set[str]) -> _Plain:
    """Return a Cell's program with all tensors as inputs, without any name or line of the network."""
    cell = without_control_flow(cell)
    program = cell.program
    if any(isinstance(item, Program) for node in program.nodes for item in node.attributes.values()):
        raise ConversionError("it has parts that can't be written out")
    inputs: dict[str, Value] = {}
    renamed: dict[Value, Value] = {}

    def lift(value: Value, kind: str, key: object, data: Array, origin: str) -> None:
        array = np.asarray(data).astype(value.dtype, copy=False)
        name = names.name(kind, key, array, origin, inputs)
        inputs[name] = renamed[value] = Value(name, Type(value.dtype, array.shape))

    for value, array, boundary in zip(program.inputs, cell.arrays, cell.input_keys, strict=True):
        lift(value, INPUT, boundary, array, _origin(boundary, cell.path))
    for name, parameter in program.parameters.items():
        lift(parameter.value, WEIGHT, name, parameter.data, f"the parameter {name}")
    for name, buffer in program.buffers.items():
        lift(buffer.value, BUFFER, name, buffer.data, f"the buffer {name}")
    constants = [constant for constant in program.constants if constant.value.shape]
    for constant in constants:
        lift(constant.value, CONSTANT, "", constant.data, "a constant of the Cell's code")
    keys: list[object] = [*cell.output_keys, *(("update", name) for name in program.updates)]
    outputs = [renamed.get(value, value) for value in (*program.outputs, *program.updates.values())]
    bare = program.replace(
        inputs=tuple(inputs.values()),
        outputs=tuple(outputs),
        nodes=tuple(
            replace(node, inputs=tuple(None if v is None else renamed.get(v, v) for v in node.inputs), cell=0,
                    source=None)
            for node in program.nodes
        ),
        parameters={},
        buffers={},
        constants=tuple(constant for constant in program.constants if not constant.value.shape),
        calls=(CellCall("", "Cell"),),
        arguments=positional_arguments(len(inputs)),
        result=sequence(len(outputs)),
    )  # fmt: skip
    stopped = {renamed[program.parameters[name].value] for name in detached if name in program.parameters}
    return _numbered(_detach(bare, stopped), keys)


def _origin(boundary: Key | None, path: str) -> str:
    """Return what an input of a Cell's program is, in words; its boundary is that of its gradient."""
    if boundary is None:
        return "a value from outside the Cell"
    if boundary.kind == INPUT_GRADIENT and boundary.path == path:
        return f"the input {boundary.slot}"
    return f"the result {boundary.slot} of {boundary.path}"


def _numbered(program: Program, keys: list[object]) -> _Plain:
    """Rebuild a program, which gives its values new names, and its outputs keys."""
    result = rebuild(program)
    return _Plain(result, dict(zip(keys, result.outputs, strict=True)))


def _detach(program: Program, stopped: set[Value]) -> Program:
    """Return a program in which no gradient arrives at these inputs."""
    if not stopped:
        return program

    def rule(builder: Any, _: int, node: Node, operands: Any) -> Any:
        operands = [
            append(builder, "stop_gradient", [operand], {})[0]
            if operand is not None and operand.value in stopped
            else operand
            for operand in operands
        ]
        return append(builder, node.op, operands, node.attributes)

    return rebuild(program, rule)


def part(program: Program, output: Value, cuts: Mapping[Value, Value] | None = None) -> Program:
    """Return the nodes that an output needs, as a program; `cuts` are values that become inputs instead."""
    cuts = dict(cuts or {})
    needed, kept = {cuts.get(output, output)}, []
    for node in reversed(program.nodes):
        if not needed.isdisjoint(node.outputs):
            inputs = tuple(None if value is None else cuts.get(value, value) for value in node.inputs)
            kept.append(replace(node, inputs=inputs))
            needed.update(value for value in inputs if value is not None)
    inputs = tuple(value for value in (*program.inputs, *dict.fromkeys(cuts.values())) if value in needed)
    return program.replace(
        inputs=inputs,
        outputs=(cuts.get(output, output),),
        nodes=tuple(kept[::-1]),
        constants=tuple(constant for constant in program.constants if constant.value in needed),
        arguments=positional_arguments(len(inputs)),
        result=sequence(1),
    )


def with_stored(program: Program, case: Case, kinds: str, dtype: Any = None) -> Program:
    """Return a program that holds the tensors of these kinds (first letters of names) as parameters or buffers."""
    inputs = tuple(value for value in program.inputs if value.name[0] not in kinds)
    stored = [value for value in program.inputs if value.name[0] in kinds]
    result = program.replace(
        inputs=inputs,
        arguments=positional_arguments(len(inputs)),
        parameters={v.name: ProgramParameter(v, case.tensors[v.name].data) for v in stored if v.name[0] == WEIGHT},
        buffers={v.name: Buffer(v, case.tensors[v.name].data) for v in stored if v.name[0] != WEIGHT},
    )
    return result if dtype is None else result.astype(dtype)


def with_inputs(program: Program, inputs: Mapping[Value, Value]) -> Program:
    """Return a program with other values as inputs; its nodes have the types of before."""
    return program.replace(
        inputs=tuple(inputs[value] for value in program.inputs),
        outputs=tuple(inputs.get(value, value) for value in program.outputs),
        nodes=tuple(
            replace(node, inputs=tuple(None if value is None else inputs.get(value, value) for value in node.inputs))
            for node in program.nodes
        ),
    )


def _renamed(program: Program, names: Mapping[str, str]) -> Program:
    return with_inputs(program, {value: Value(names[value.name], value.type) for value in program.inputs})


def values_of(program: Program, arrays: Sequence[Array]) -> dict[Value, Array]:
    """Return what each node of a program computes."""
    values = [value for node in program.nodes for value in node.outputs]
    return dict(zip(values, execute(program, arrays, wanted=values), strict=True))
