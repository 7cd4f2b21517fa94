"""`isolated_program`: every Cell runs on the values it is fed."""

from __future__ import annotations

from typing import Any

import numpy as np

from cellbridge.runtime import Program, execute, verify
from cellbridge.runtime.ir.passes.cut_boundaries import isolated_program
from cellbridge.runtime.ir.types import FLOAT32, CellCall, Node, Type, Value
from cellbridge.runtime.ops import elementwise
from cellbridge.runtime.ops.boundary import boundary
from cellbridge.runtime.programs.gradient_program import differentiate
from cellbridge.runtime.tracing import Builder
from cellbridge.runtime.tree import TENSOR, Structure

ROOT, FIRST, SECOND = 0, 1, 2


def program_of_two() -> Program:
    """`second(first(x)) + x`, where `first` is exp and `second` doubles, then hands its input through as well."""
    b = Builder()
    x = b.new_value("x", Type(FLOAT32, (3,)))
    outer = boundary(x, call=ROOT, kind="input", slot="[0]")
    with b.at(FIRST, None):
        y = elementwise.exp(boundary(outer, call=FIRST, kind="input", slot="[0]"))
        y = boundary(y, call=FIRST, kind="output", slot="")
    with b.at(SECOND, None):
        inner = boundary(y, call=SECOND, kind="input", slot="[0]")
        doubled = boundary(inner * 2.0, call=SECOND, kind="output", slot="[0]")
        through = boundary(inner, call=SECOND, kind="output", slot="[1]")
    results = [boundary(t, call=ROOT, kind="output", slot=f"[{i}]") for i, t in enumerate((doubled + outer, through))]
    return Program(
        inputs=(x.value,),
        outputs=tuple(result.value for result in results),
        nodes=tuple(b.nodes),
        parameters={},
        buffers={},
        constants=tuple(b.constants),
        calls=(CellCall("", "Model"), CellCall("first", "Exp", 0, 0), CellCall("second", "Double", 0, 0)),
        arguments=Structure("tuple", (Structure("tuple", (TENSOR,)), Structure("dict"))),
        result=Structure("tuple", (TENSOR, TENSOR)),
    )


def record(program: Program, inputs: list[Any]) -> dict[Value, Any]:
    """The result of every boundary."""
    recorded: dict[Value, Any] = {}

    def observe(node: Node, array: Any) -> Any:
        recorded[node.outputs[0]] = array
        return array

    execute(program, inputs, observe=observe)
    return recorded


def test_boundaries_are_cut() -> None:
    program = program_of_two()
    cut = isolated_program(program)
    verify(cut)
    boundaries = [node for node in program.nodes if node.op == "boundary"]
    operands = {node.inputs[0] for node in boundaries}
    assert {node.op for node in cut.nodes} == {"exp", "mul", "add"}
    assert set(cut.inputs) - set(program.inputs) == {v for node in cut.nodes for v in node.inputs} & {
        node.outputs[0] for node in boundaries
    }
    assert set(cut.outputs) == operands & set(cut.producers)
    assert len(cut.outputs) == 3, "exp, mul, add; what is handed through isn't computed"


def test_recorded_values_give_back_what_was_recorded() -> None:
    program = program_of_two()
    cut = isolated_program(program)
    x = np.array([0.5, 1.0, 2.0], np.float32)
    known = record(program, [x]) | {program.inputs[0]: x}
    results = dict(zip(cut.outputs, execute(cut, [known[value] for value in cut.inputs]), strict=True))
    for node in program.nodes:
        operand = node.inputs[0]
        if node.op == "boundary" and operand in results:
            np.testing.assert_array_equal(results[operand], known[node.outputs[0]])


def test_a_cell_is_fed_apart_from_the_others() -> None:
    program = program_of_two()
    cut = isolated_program(program)
    x = np.array([0.5, 1.0, 2.0], np.float32)
    known = record(program, [x]) | {program.inputs[0]: x}
    (second_input,) = [
        node.outputs[0]
        for node in program.nodes
        if node.op == "boundary" and node.attributes["call"] == SECOND and node.attributes["kind"] == "input"
    ]
    before = execute(cut, [known[value] for value in cut.inputs])
    after = execute(cut, [known[value] + (value is second_input) for value in cut.inputs])
    changed = {
        cut.producers[v].op for v, a, b in zip(cut.outputs, before, after, strict=True) if not np.array_equal(a, b)
    }
    assert changed == {"mul"}, "the second Cell alone"


def test_gradient_programs_are_cut_too() -> None:
    backward = differentiate(program_of_two(), every_boundary=True).program
    kinds = {node.attributes["kind"] for node in backward.nodes if node.op == "boundary"}
    assert kinds == {"input", "output", "input_gradient", "output_gradient"}
    cut = isolated_program(backward)
    verify(cut)
    assert all(node.op != "boundary" for node in cut.nodes)


def test_inputs_and_outputs_are_known_by_name() -> None:
    cut = isolated_program(program_of_two())
    result = cut(**{value.name: np.ones(3, np.float32) for value in cut.inputs})
    assert list(result) == [value.name for value in cut.outputs]
