"""Gradients of a small network and of expressions, through `grad`, `value_and_grad` and `GradOperation`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cellbridge.runtime import GradOperation, Parameter, ParameterTuple, Tensor, grad, ops, value_and_grad
from tests.runtime.golden.cases import Inputs, Params, runner
from tests.runtime.golden.networks import SeedNet

NAMES: dict[str, Any] = {
    "sin": ops.sin, "cos": ops.cos, "exp": ops.exp, "tanh": ops.tanh, "relu": ops.relu, "square": ops.square,
    "sum": lambda x: x.sum(), "mean": lambda x: x.mean(), "matmul": ops.matmul, "squeeze": ops.squeeze,
    "mse": lambda x, y: ops.square(x - y).mean(), "T": lambda x: x.T, "stop_gradient": ops.stop_gradient,
    "via_numpy": lambda x: Tensor(x.asnumpy()),
}  # fmt: skip


def _request(params: Params) -> dict[str, Any]:
    position = params.get("grad_position")
    return {
        "grad_position": tuple(position) if isinstance(position, list) else position,
        "has_aux": params.get("has_aux", False),
        "return_ids": params.get("return_ids", False),
    }


@runner("grad_net")
def grad_net(params: Params, inputs: Inputs) -> dict[str, Any]:
    net = SeedNet(inputs["w"], inputs.get("b"), params.get("sum_outputs", False))
    weights = ParameterTuple(net.trainable_params()) if params["weights"] == "all" else None
    api = {"grad": grad, "value_and_grad": value_and_grad}[params["api"]]
    return {"result": api(net, weights=weights, **_request(params))(inputs["x"], inputs["y"])}


@runner("grad_expr")
def grad_expr(params: Params, inputs: Inputs) -> dict[str, Any]:
    weights = {name: Parameter(value, name=name) for name, value in inputs.get("weights", {}).items()}
    for name in params.get("frozen", []):
        weights[name].requires_grad = False
    names = [name for name in inputs if name not in ("weights", "sens")]
    args = [inputs[name] for name in names]

    def function(*values: Any) -> Any:
        known = NAMES | weights | dict(zip(names, values, strict=True))
        results = tuple(eval(expression, {"__builtins__": {}}, known) for expression in params["exprs"])
        return results if len(results) > 1 else results[0]

    weight_names = params.get("weights")
    listed = (
        ParameterTuple([weights[name] for name in weight_names])
        if isinstance(weight_names, list)
        else weights.get(weight_names)
    )
    return {"result": _gradients(params, function, listed, args, inputs.get("sens"))}


def _gradients(params: Params, function: Callable[..., Any], weights: Any, args: list[Any], sens: Any) -> Any:
    if params["api"] != "grad_operation":
        api = {"grad": grad, "value_and_grad": value_and_grad}[params["api"]]
        return api(function, weights=weights, **_request(params))(*args)
    flags = {name: params.get(name, False) for name in ("get_all", "get_by_list", "sens_param")}
    operation = GradOperation(**flags)
    made = operation(function, weights) if flags["get_by_list"] else operation(function)
    if flags["sens_param"]:
        args = [*args, tuple(sens) if isinstance(sens, list) else sens]
    return made(*args)
