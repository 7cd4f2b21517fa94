"""Layers and losses, with their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from cellbridge.runtime import Tensor, grad, nn, ops, set_seed
from tests.runtime.golden.cases import Inputs, Params, runner
from tests.runtime.golden.networks import _arguments, layer


def _output_and_gradients(cell: nn.Cell, x: Any, sens: Any, names: dict[str, Any]) -> dict[str, Any]:
    """`dx`, and the gradients of Parameters under the given names, of sum(out * sens)."""
    weights = list(names.values())
    dx, of_weights = grad(lambda x: (cell(x) * sens).sum(), 0, weights)(x)
    return {"dx": dx} | dict(zip(names, of_weights, strict=True))


@runner("conv2d")
def conv2d(params: Params, inputs: Inputs) -> dict[str, Any]:
    w, x = inputs["w"], inputs["x"]
    conv = _arguments(params["conv"])
    bias = {"has_bias": True, "bias_init": inputs["b"]} if "b" in inputs else {}
    cell = nn.Conv2d(x.shape[1], w.shape[0], tuple(w.shape[2:]), weight_init=w, **conv, **bias)
    out = cell(x)
    if not params["grads"]:
        return {"out": out}
    names = {"dw": cell.weight} | ({"db": cell.bias} if bias else {})
    return {"out": out} | _output_and_gradients(cell, x, inputs.get("sens", ops.ones_like(out)), names)


@runner("conv2d_shape")
def conv2d_shape(params: Params, inputs: Inputs) -> dict[str, Any]:
    shapes = []
    for row in params["table"]:
        channels = row["x_shape"][1]
        cell = nn.Conv2d(channels, row.get("out", channels), **_arguments(row["conv"]))
        shapes.append(list(cell(ops.zeros(tuple(row["x_shape"]))).shape))
    return {"shapes": shapes}


@runner("batchnorm")
def batchnorm(params: Params, inputs: Inputs) -> dict[str, Any]:
    x = inputs["x"]
    initial = {"gamma": "gamma", "beta": "beta", "moving_mean": "mean", "moving_var": "var"}
    given = {f"{name}_init": inputs[key] for name, key in initial.items()}
    made = {2: nn.BatchNorm1d, 4: nn.BatchNorm2d}[x.ndim]
    cell = made(x.shape[1], **given, **params.get("kwargs", {})).set_train(params["train"])
    for _ in range(params.get("calls", 1)):
        out = cell(x)
    results = {"out": out, "moving_mean": cell.moving_mean.asnumpy(), "moving_variance": cell.moving_variance.asnumpy()}
    if params.get("grads"):
        results |= _output_and_gradients(cell, x, inputs["sens"], {"dgamma": cell.gamma, "dbeta": cell.beta})
        results["moving_mean_after_grad"] = cell.moving_mean.asnumpy()
    return results


@runner("dropout")
def dropout(params: Params, inputs: Inputs) -> dict[str, Any]:
    set_seed(1)
    cell = nn.Dropout(*params.get("args", []), **params.get("kwargs", {})).set_train(params["train"])
    values = np.concatenate([cell(ops.ones((2000,))).asnumpy() for _ in range(5)])
    low, high = params["zero_fraction"]
    return {
        "unique": sorted({float(value) for value in values}),
        "zero_fraction_ok": bool(low <= np.mean(values == 0) <= high),
    }


@runner("norm_layer")
def norm_layer(params: Params, inputs: Inputs) -> dict[str, Any]:
    x = inputs["x"]
    given = {"gamma_init": inputs["gamma"], "beta_init": inputs["beta"]} | params.get("kwargs", {})
    if params["layer"] == "LayerNorm":
        cell: nn.Cell = nn.LayerNorm(params["shape"], **given)
    else:
        cell = nn.GroupNorm(params["groups"], x.shape[1], **given)
    names = {"dgamma": cell.gamma, "dbeta": cell.beta}
    return {"out": cell(x)} | _output_and_gradients(cell, x, inputs["sens"], names)


@runner("activation")
def activation(params: Params, inputs: Inputs) -> dict[str, Any]:
    cell = layer(params["layer"], params["kwargs"])
    return {"out": cell(inputs["x"])} | _output_and_gradients(cell, inputs["x"], inputs["sens"], {})


@runner("pool")
def pool(params: Params, inputs: Inputs) -> dict[str, Any]:
    cell = layer(params["layer"], params["kwargs"])
    return {"out": cell(inputs["x"])} | _output_and_gradients(cell, inputs["x"], 1.0, {})


@runner("loss")
def loss(params: Params, inputs: Inputs) -> dict[str, Any]:
    cell = layer(params["layer"], params["kwargs"])
    logits, label = inputs["logits"], inputs["label"]
    return {"out": cell(logits, label), "dlogits": grad(cell)(logits, label)}


@runner("embedding")
def embedding(params: Params, inputs: Inputs) -> dict[str, Any]:
    table = inputs["table"]
    cell = nn.Embedding(*table.shape, padding_idx=params["padding_idx"])
    cell.embedding_table.set_data(table)
    weights = cell.trainable_params()
    (dtable,) = grad(lambda ids: (cell(ids) * inputs["sens"]).sum(), None, weights)(inputs["ids"])
    return {"out": cell(inputs["ids"]), "dtable": dtable, "names": [weight.name for weight in weights]}


@runner("lstm")
def lstm(params: Params, inputs: Inputs) -> dict[str, Any]:
    kwargs = params["kwargs"]
    cell = nn.LSTM(has_bias=True, **kwargs)
    parameters = cell.parameters_dict()
    for name, value in inputs["params"].items():
        parameters[name].set_data(value)
    x = inputs["x"]
    batch = x.shape[0] if kwargs.get("batch_first") else x.shape[1]
    layers = kwargs.get("num_layers", 1) * (2 if kwargs.get("bidirectional") else 1)
    zeros = Tensor(np.zeros((layers, batch, kwargs["hidden_size"]), np.float32))
    out, (h, c) = cell(x, (zeros, zeros))
    return {"out": out, "h": h, "c": c, "names": list(parameters)}
