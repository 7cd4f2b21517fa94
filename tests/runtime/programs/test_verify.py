"""`verify`: every rule of the IR, broken once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from cellbridge.runtime import Program, ProgramError, verify
from cellbridge.runtime.ir.types import FLOAT32, FLOAT64, CellCall, ProgramParameter, Type, Value
from cellbridge.runtime.tree import TENSOR, Structure
from tests.runtime.building import build

STRAY = Value("stray", Type(FLOAT32, (2,)))


def good() -> Program:
    return build(lambda x, w: x * w + 1.0, (2,), parameters={"w": np.ones(2, np.float32)})


def first(program: Program, **changes: object) -> Program:
    """The program with its first node changed."""
    return program.replace(nodes=(replace(program.nodes[0], **changes), *program.nodes[1:]))  # type: ignore[arg-type]


def retyped(program: Program, type: Type) -> Program:
    return first(program, outputs=(Value("mul", type),))


FAULTS: dict[str, tuple[Callable[[Program], Program], str]] = {
    "no calls": (lambda p: p.replace(calls=()), "must be the root"),
    "root with a path": (lambda p: p.replace(calls=(CellCall("a", "A"),)), "must be the root"),
    "parent comes later": (lambda p: p.replace(calls=(*p.calls, CellCall("a", "A", 0, 1))), "parent must be"),
    "cell of a node": (lambda p: first(p, cell=1), "belongs to Cell call 1, there are 1"),
    "cell of a node that is no whole number": (lambda p: first(p, cell=0.0), "belongs to Cell call 0.0"),
    "assigned twice": (lambda p: p.replace(nodes=(p.nodes[0], *p.nodes)), "assigned twice"),
    "one name, two values": (lambda p: p.replace(inputs=(*p.inputs, Value("w", STRAY.type))), "assigned twice"),
    "used before computed": (lambda p: p.replace(nodes=p.nodes[::-1]), "used before it is computed"),
    "undefined operand": (lambda p: first(p, inputs=(STRAY, STRAY)), "%stray: float32.2. is used before"),
    "undefined output": (lambda p: p.replace(outputs=(STRAY,)), "output %stray: float32.2. is never computed"),
    "data of another shape": (
        lambda p: p.replace(parameters={"w": ProgramParameter(p.parameters["w"].value, np.ones(3, np.float32))}),
        r"data of shape \(3,\)",
    ),
    "unknown op": (lambda p: first(p, op="no_such_op"), "no op named 'no_such_op'"),
    "unknown attribute": (lambda p: first(p, attributes={"axis": 1}), "unknown attributes"),
    "wrong shape": (lambda p: retyped(p, Type(FLOAT32, (3,))), "outputs are .*, inferred"),
    "wrong dtype": (lambda p: retyped(p, Type(FLOAT64, (2,))), r"outputs are %?.*float64\[2\], inferred float32\[2\]"),
    "operands that do not fit": (lambda p: first(p, inputs=(p.inputs[0],)), "is given 1 operands"),
    "absent operand": (lambda p: first(p, inputs=(p.inputs[0], None)), "is given 1 operands"),
    "arguments": (lambda p: p.replace(arguments=TENSOR, inputs=(*p.inputs, STRAY)), "arguments hold 1 tensors"),
    "result": (lambda p: p.replace(result=Structure("tuple", (TENSOR, TENSOR))), "result hold 2 tensors"),
}  # fmt: skip


def test_a_good_program_passes() -> None:
    verify(good())


@pytest.mark.parametrize("fault", FAULTS)
def test_each_rule(fault: str) -> None:
    plant, message = FAULTS[fault]
    with pytest.raises(ProgramError, match=message):
        verify(plant(good()))


def test_the_message_names_node_and_cell() -> None:
    faulty = first(good(), inputs=(STRAY, STRAY))
    with pytest.raises(ProgramError, match=r"op mul in Cell \(root\)"):
        verify(faulty)
