"""Reductions, padding, resizing."""

from __future__ import annotations

from typing import Any

from cellbridge.runtime import nn, ops
from tests.runtime.golden.cases import Inputs, Params, runner


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@runner("reduce")
def reduce(params: Params, inputs: Inputs) -> dict[str, Any]:
    x, name = inputs["x"], params["op"]
    given = {key: _tuple(value) for key, value in params.items() if key != "op"}
    if name.startswith("Reduce"):
        axes = [given.pop("axis")] if "axis" in given else []
        return {"result": getattr(ops, name)(**given)(x, *axes)}
    if name in ("var", "std"):
        return {"result": getattr(x, name)(**given)}
    if name == "TopK":
        return {"result": ops.TopK(given.get("sorted", True))(x, given["k"])}
    if name in ("ArgMaxWithValue", "ArgMinWithValue", "Sort"):
        return {"result": getattr(ops, name)(**given)(x)}
    return {"result": getattr(ops, name)(x, **given)}


@runner("pad")
def pad(params: Params, inputs: Inputs) -> dict[str, Any]:
    x = inputs["x"]
    given = {key: value for key, value in params.items() if key != "api"}
    if params["api"] == "nn.Pad":
        given["paddings"] = tuple(tuple(pair) for pair in given["paddings"])
        return {"out": nn.Pad(**given)(x)}
    return {"out": ops.pad(x, given.pop("padding"), **given)}


@runner("interpolate")
def interpolate(params: Params, inputs: Inputs) -> dict[str, Any]:
    x, size = inputs["x"], tuple(params["size"])
    given = {key: value for key, value in params.items() if key not in ("api", "size")}
    if params["api"] == "ResizeBilinearV2":
        return {"out": ops.ResizeBilinearV2(**given)(x, size)}
    return {"out": ops.interpolate(x, size, **given)}
