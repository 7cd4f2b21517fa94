"""Programs built by hand, and what is asked of every exported model."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from cellbridge.runtime import Program, ops, tree
from cellbridge.runtime.ir.dims import symbol
from cellbridge.runtime.ir.types import FLOAT32, CellCall, ProgramParameter, Source, Type, Value
from cellbridge.runtime.ops import boundary, linear
from cellbridge.runtime.tracing import Builder, SymbolicTensor

Array = np.ndarray[Any, Any]

RNG = np.random.default_rng(0)
BATCH = symbol("batch")
ROOT = CellCall("", "Model")


def floats(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def value_of(traced: Any) -> Value:
    assert isinstance(traced, SymbolicTensor)
    return traced.value


def finish(builder: Builder, args: Any, kwargs: dict[str, SymbolicTensor], result: Any, **fields: Any) -> Program:
    """The program with these arguments and this result, `SymbolicTensor` where tensors stand."""
    arguments, result = _split((tuple(args), kwargs)), _split(result)
    given = {"parameters": {}, "buffers": {}, "calls": (ROOT,)} | fields
    return Program(
        inputs=arguments[0],
        outputs=result[0],
        nodes=tuple(builder.nodes),
        constants=tuple(builder.constants),
        arguments=arguments[1],
        result=result[1],
        **given,
    )


def _split(nested: Any) -> tuple[tuple[Value, ...], tree.Structure]:
    """The values in order, and the structure around them."""
    if isinstance(nested, SymbolicTensor):
        return (nested.value,), tree.TENSOR
    items = list(nested.values() if isinstance(nested, dict) else nested)
    parts = [_split(item) for item in items]
    kind, keys = ("dict", tuple(nested)) if isinstance(nested, dict) else ("tuple", ())
    return tuple(v for values, _ in parts for v in values), tree.Structure(kind, tuple(s for _, s in parts), keys)


def two_cells() -> Program:
    """`head(body(x))` with a linear layer in `body.0` and in `head`, a dead node, and boundaries."""
    b = Builder()
    source = Source("model.py", 12, "y = self.body(x)", "aten.linear.default")
    x = b.new_value("x", Type(FLOAT32, (BATCH, 4)))
    data = {"body.0.weight": floats(3, 4), "body.0.bias": floats(3), "head.weight": floats(2, 3)}
    weights = {name: b.new_value(name.replace(".", "_"), Type(FLOAT32, array.shape)) for name, array in data.items()}
    y = boundary.boundary(x, call=0, kind="input", slot="[0]")
    with b.at(1, source):
        y = boundary.boundary(y, call=1, kind="input", slot="[0]")
        y = linear.linear(y, weights["body.0.weight"], weights["body.0.bias"])
        ops.get("relu")(y)  # dead
        y = boundary.boundary(y, call=1, kind="output", slot="")
    with b.at(2, None):
        y = boundary.boundary(y, call=2, kind="input", slot="[0]")
        y = linear.linear(y, weights["head.weight"])
        y = boundary.boundary(y, call=2, kind="output", slot="")
    y = boundary.boundary(y, call=0, kind="output", slot="")
    return finish(
        b,
        [x],
        {},
        y,
        parameters={name: ProgramParameter(value_of(weights[name]), array) for name, array in data.items()},
        calls=(ROOT, CellCall("body.0", "Linear", parent=0), CellCall("head", "Linear", 1, parent=0)),
    )


def checked(model: onnx.ModelProto) -> onnx.ModelProto:
    onnx.checker.check_model(model, full_check=True)
    onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    return model


def names(values: Any) -> list[str]:
    return [value.name for value in values]


def metadata(node: onnx.NodeProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in node.metadata_props}
