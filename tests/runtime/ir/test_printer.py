"""Programs as text."""

from __future__ import annotations

from typing import Any

import numpy as np

from cellbridge.runtime.ir.types import CellCall, ProgramParameter
from cellbridge.runtime.ops import shaping
from cellbridge.runtime.ops.boundary import boundary
from tests.runtime.building import build

EXPECTED = """\
program Model(%x: float32[2]):
  parameter w: float32[2] frozen
  constant %constant_1: float32[2]
  (root) Model
    %mul: float32[2] = mul(%x, 2.0)
  layer@1 Layer
    %boundary: float32[2] = input x %mul
    %add: float32[2] = add(%boundary, @w)
  (root) Model
    %add_1: float32[2] = add(%add, %constant_1)
    %reshape: float32[1, 2] = reshape(%add_1, shape=(1, 2))
  return %reshape"""


def test_text() -> None:
    def function(x: Any, w: Any) -> Any:
        y = x * 2.0
        with x.builder.at(1, None):
            y = boundary(y, call=1, kind="input", slot="x") + w
        return shaping.reshape(y + np.ones(2, np.float32), shape=(1, 2))

    program = build(function, (2,), parameters={"w": np.ones(2, np.float32)})
    frozen = {"w": ProgramParameter(program.parameters["w"].value, np.ones(2, np.float32), trainable=False)}
    calls = (*program.calls, CellCall("layer", "Layer", 1, 0))
    program = program.replace(parameters=frozen, calls=calls)
    assert str(program) == EXPECTED
    assert repr(program) == "<Program of Model: 5 nodes, 1 parameters, 2 Cells>"
