"""Mixed precision by `to_float`."""

from __future__ import annotations

from typing import Any

from cellbridge.runtime import Tensor, float32, grad, nn
from tests.runtime.golden.cases import Inputs, Params, runner
from tests.runtime.golden.networks import dense


@runner("to_float_dense")
def to_float_dense(params: Params, inputs: Inputs) -> dict[str, Any]:
    cell = dense(inputs["w"], inputs["b"]).to_float(params["dst"])
    x, sens = inputs["x"], inputs["sens"]
    out = cell(x)
    weights = cell.trainable_params()
    dx, (dw, db) = grad(lambda x: (cell(x).astype(float32) * sens).sum(), 0, weights)(x)
    return {
        "out": out.astype(float32),
        "out_dtype": str(out.dtype),
        "w_dtype": str(cell.weight.dtype),
        "dx": dx.astype(float32),
        "dx_dtype": str(dx.dtype),
        "dw": dw,
        "db": db,
        "dw_dtype": str(dw.dtype),
    }


@runner("to_float_tree")
def to_float_tree(params: Params, inputs: Inputs) -> dict[str, Any]:
    net = nn.SequentialCell([dense(inputs["w"]), nn.BatchNorm1d(3), dense(inputs["w2"])])
    cells = dict(net.cells_and_names())
    for path, dtype in params["calls"]:
        cells[path].to_float(dtype)
    dtypes: dict[str, str] = {}

    def note(path: str, output: Tensor) -> None:
        dtypes[path] = str(output.dtype)

    for path, cell in cells.items():
        if path:
            cell.register_forward_hook(lambda cell, inputs, output, path=path: note(path, output))
    out = net(inputs["x"])
    return {"out_dtypes": dtypes, "final_dtype": str(out.dtype), "out": out.astype(float32)}
