"""Small programs built by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cellbridge.runtime.ir.program import Program
from cellbridge.runtime.ir.types import CellCall, ProgramParameter, Type, as_dtype
from cellbridge.runtime.tracing import Builder
from cellbridge.runtime.tree import TENSOR, Structure


def build(
    function: Callable[..., Any],
    *shapes: tuple[Any, ...],
    dtype: Any = "float32",
    parameters: dict[str, np.ndarray[Any, Any]] | None = None,
    **changes: Any,
) -> Program:
    """The program of a function of traced values: the inputs of these shapes, then the parameters."""
    builder = Builder()
    inputs = [builder.new_value("x", Type(as_dtype(dtype), shape)) for shape in shapes]
    held = {
        name: ProgramParameter(builder.new_value(name, Type(data.dtype, data.shape)).value, data)
        for name, data in (parameters or {}).items()
    }
    result = function(*inputs, *(type(inputs[0])(builder, p.value) for p in held.values()))
    results = result if isinstance(result, tuple) else (result,)
    program = Program(
        inputs=tuple(x.value for x in inputs),
        outputs=tuple(y.value for y in results),
        nodes=tuple(builder.nodes),
        parameters=held,
        buffers={},
        constants=tuple(builder.constants),
        calls=(CellCall("", "Model"),),
        arguments=Structure("tuple", (Structure("tuple", (TENSOR,) * len(inputs)), Structure("dict"))),
        result=Structure("tuple", (TENSOR,) * len(results)) if isinstance(result, tuple) else TENSOR,
    )
    return program.replace(**changes)
