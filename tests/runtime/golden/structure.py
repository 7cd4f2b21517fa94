"""Names, flags, checkpoints and initial values of Cells; how often a Cell runs."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from cellbridge.runtime import (
    Parameter,
    ParameterTuple,
    Tensor,
    grad,
    load_checkpoint,
    load_param_into_net,
    nn,
    ops,
    save_checkpoint,
    set_seed,
    value_and_grad,
)
from cellbridge.runtime.common import initializer as initializers
from tests.runtime.golden.cases import Inputs, Params, runner
from tests.runtime.golden.networks import Linear, build


def _names(parameters: Any) -> list[str]:
    return [parameter.name for parameter in parameters]


@runner("naming")
def naming(params: Params, inputs: Inputs) -> dict[str, Any]:
    cell = build(params["tree"])
    return {
        "parameters": [[p.name, list(p.shape), p.requires_grad] for p in cell.get_parameters()],
        "trainable": _names(cell.trainable_params()),
        "untrainable": _names(cell.untrainable_params()),
        "parameters_dict": list(cell.parameters_dict()),
        "cells": [[path, type(sub).__name__] for path, sub in cell.cells_and_names()],
    }


@runner("train_phase")
def train_phase(params: Params, inputs: Inputs) -> dict[str, Any]:
    root = nn.SequentialCell([nn.Dense(2, 2), nn.Dropout(p=0.5), nn.BatchNorm1d(2)])
    targets = {"": root, "1": root[1]}

    def state() -> list[Any]:
        return [root.training, root.phase, root[1].training, root[1].phase]

    states = [state()]
    for target, mode in params["calls"]:
        cell = targets[target]
        assert (cell.set_train() if mode is None else cell.set_train(mode)) is cell
        states.append(state())
    return {"states": states}


@runner("trainable_filter")
def trainable_filter(params: Params, inputs: Inputs) -> dict[str, Any]:
    cell = build(params["tree"])
    initial = _names(cell.trainable_params())
    for parameter in cell.trainable_params():
        parameter.requires_grad = params["freeze"] not in parameter.name
    frozen, untrainable = _names(cell.trainable_params()), _names(cell.untrainable_params())
    for parameter in cell.trainable_params():
        parameter.requires_grad = True
    after_trainable = _names(cell.trainable_params())
    for parameter in cell.get_parameters():
        if params["freeze"] in parameter.name:
            parameter.requires_grad = True
    return {
        "initial": initial,
        "frozen": frozen,
        "untrainable": untrainable,
        "after_true_loop_over_trainable": after_trainable,
        "after_loop_over_get_parameters": _names(cell.trainable_params()),
    }


@runner("load_param")
def load_param(params: Params, inputs: Inputs) -> dict[str, Any]:
    net = Linear(inputs["w"], inputs["b"])
    values = {name: Parameter(value, name=name) for name, value in inputs["ckpt"].items()}
    missing, unused = load_param_into_net(net, values, params.get("strict_load", False))
    return {
        "param_not_load": missing,
        "ckpt_not_load": unused,
        "params": {parameter.name: parameter.asnumpy() for parameter in net.get_parameters()},
        "dtypes": {parameter.name: str(parameter.dtype) for parameter in net.get_parameters()},
    }


@runner("checkpoint_roundtrip")
def checkpoint_roundtrip(params: Params, inputs: Inputs) -> dict[str, Any]:
    net = build(params["tree"])
    for name, parameter in net.parameters_dict().items():
        if name in inputs:
            parameter.set_data(inputs[name])
        if name in params.get("frozen", []):
            parameter.requires_grad = False
    with tempfile.TemporaryDirectory() as folder:
        save_checkpoint(net, str(Path(folder) / "net"))
        loaded = load_checkpoint(str(Path(folder) / "net.ckpt"))
    ones = {name: Parameter(ops.ones_like(value), name=name) for name, value in loaded.items()}
    assert load_param_into_net(net, ones) == ([], [])
    return {
        "loaded": {name: parameter.asnumpy() for name, parameter in loaded.items()},
        "requires_grad": {name: parameter.requires_grad for name, parameter in loaded.items()},
        "after_ones": {parameter.name: parameter.asnumpy() for parameter in net.get_parameters()},
        "net_requires_grad": {parameter.name: parameter.requires_grad for parameter in net.get_parameters()},
    }


@runner("init_stats")
def init_stats(params: Params, inputs: Inputs) -> dict[str, Any]:
    set_seed(1)
    if "layer" in params:
        cell = getattr(nn, params["layer"])(*params["args"], **params.get("kwargs", {}))
        values = {name: parameter.asnumpy() for name, parameter in cell.parameters_dict().items()}
    else:
        init = params["init"]
        if hasattr(initializers, init) and init != "initializer":
            init = getattr(initializers, init)(**params.get("kwargs", {}))
        values = {"value": initializers.initializer(init, params["shape"]).asnumpy()}
    return {name: _checked(values[name], bounds) for name, bounds in params["check"].items()}


def _checked(values: np.ndarray[Any, Any], bounds: dict[str, list[float]]) -> dict[str, Any]:
    deviation, largest = float(values.std()), float(np.abs(values).max())
    return {
        "shape": list(values.shape),
        "std_ok": bounds["std"][0] <= deviation <= bounds["std"][1],
        "absmax_ok": bounds["absmax"][0] <= largest <= bounds["absmax"][1],
    }


class Counting(nn.Cell):
    """Squares its input and counts how often it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def construct(self, x: Any) -> Any:
        self.count += 1
        return x * x


@runner("construct_count")
def construct_count(params: Params, inputs: Inputs) -> dict[str, Any]:
    counts: dict[str, Any] = {}
    for prefix, kept in (("", False), ("set_grad_", True)):
        for name, pattern in PATTERNS.items():
            cell = Counting()
            if kept:
                cell.set_grad()
            pattern(cell, Tensor(inputs["x"].asnumpy()))
            counts[prefix + name] = cell.count
        norm = nn.BatchNorm2d(2, momentum=0.9).set_train()
        if kept:
            norm.set_grad()
        x = inputs["bn_x"]
        norm(x)
        grad(norm)(x)
        counts[f"{prefix}bn"] = norm.moving_mean.asnumpy()
    return counts


PATTERNS: dict[str, Any] = {
    "forward": lambda cell, x: cell(x),
    "grad": lambda cell, x: grad(cell)(x),
    "value_and_grad": lambda cell, x: value_and_grad(cell)(x),
    "forward_then_grad_same": lambda cell, x: (cell(x), grad(cell)(x)),
    "forward_then_value_and_grad_same": lambda cell, x: (cell(x), value_and_grad(cell)(x)),
    "forward_then_grad_equal": lambda cell, x: (cell(x), grad(cell)(Tensor(x.asnumpy()))),
    "forward_then_two_grads_same": lambda cell, x: (cell(x), grad(cell)(x), grad(cell)(x)),
    "two_forwards_then_grad_same": lambda cell, x: (cell(x), cell(x), grad(cell)(x)),
    "forward_then_grad_lambda": lambda cell, x: (cell(x), grad(lambda v: cell(v))(x)),
}


@runner("param_ops")
def param_ops(params: Params, inputs: Inputs) -> dict[str, Any]:
    into_float = Parameter([[0.0, 0.0]], name="p")
    returned = into_float.set_data(Tensor([[1, 2]], "int32"))
    int_into_float = [str(into_float.dtype), into_float.asnumpy()]
    into_float.set_data(Tensor([[1.5, 2.0]], "float16"))
    half_into_float = [str(into_float.dtype), into_float.asnumpy()]
    into_int = Parameter(Tensor([0, 0], "int32"), name="q")
    into_int.set_data(Tensor([1.5, 2.5]))
    cloned = ParameterTuple([Parameter([1.0], name="a"), Parameter([2.0], name="b")]).clone(prefix="mom", init="zeros")
    zeros, same = into_float.clone("zeros"), into_float.clone()
    assigned = ops.assign(into_float, Tensor([[7.0, 8.0]])).asnumpy()
    added = ops.assign_add(into_float, Tensor([[1.0, 1.0]])).asnumpy()
    return {
        "list_float": str(Parameter([1.0, 2.0]).dtype),
        "py_int": str(Parameter(3).dtype),
        "py_float": str(Parameter(3.0).dtype),
        "np_f64": str(Parameter(np.array([1.0])).dtype),
        "set_data_returns_self": returned is into_float,
        "int_into_float": int_into_float,
        "half_into_float": half_into_float,
        "float_into_int": [str(into_int.dtype), into_int.asnumpy()],
        "clone_zeros": zeros.asnumpy(),
        "clone_same": same.asnumpy(),
        "tuple_clone_names": _names(cloned),
        "assign": assigned,
        "assign_add": added,
    }
