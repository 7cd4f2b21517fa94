"""Training steps: optimizers, wrapped Cells, frozen parts, a small convolutional network."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from cellbridge.runtime import Parameter, grad, nn, ops
from tests.runtime.golden.cases import Inputs, Params, runner
from tests.runtime.golden.networks import Linear, build, dense, optimizer


@runner("train_step_cell")
def train_step_cell(params: Params, inputs: Inputs) -> dict[str, Any]:
    net = Linear(inputs["w"], inputs.get("b"))
    sens = {} if params["sens"] is None else {"sens": params["sens"]}
    update = optimizer(params["optimizer"], net.trainable_params())
    mismatch = (params["sens"] or 1.0) != params["optimizer"].get("loss_scale", 1.0)
    with pytest.warns(UserWarning, match="loss_scale") if mismatch else contextlib.nullcontext():
        step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), update, **sens)
    losses = [float(step(inputs["x"], inputs["y"])) for _ in range(params["steps"])]
    bias = {"b": net.fc.bias.asnumpy()} if "b" in inputs else {}
    return {"losses": losses, "w": net.fc.weight.asnumpy()} | bias


class TwoLayers(nn.Cell):
    """relu(A x), perhaps without its gradient, then B."""

    def __init__(self, inputs: Inputs, stop: bool) -> None:
        super().__init__()
        self.a = Linear(inputs["wa"], inputs["ba"])
        self.b = Linear(inputs["wb"], inputs["bb"])
        self.stop = stop

    def construct(self, x: Any) -> Any:
        hidden = ops.relu(self.a(x))
        return self.b(ops.stop_gradient(hidden) if self.stop else hidden)


@runner("train_frozen")
def train_frozen(params: Params, inputs: Inputs) -> dict[str, Any]:
    when, _, part = params["mode"].partition(":")
    net = TwoLayers(inputs, stop=when == "stop_gradient")
    loss = nn.WithLossCell(net, nn.MSELoss())

    def freeze() -> None:
        for parameter in net.get_parameters():
            if part in parameter.name:
                parameter.requires_grad = False

    if when == "freeze":
        freeze()
    update = optimizer(params["optimizer"], net.trainable_params())
    if when == "freeze_late":
        freeze()
    x, y = inputs["x"], inputs["y"]
    first = grad(loss, None, update.parameters)(x, y)
    step = nn.TrainOneStepCell(loss, update)
    return {
        "trainable": [parameter.name for parameter in net.trainable_params()],
        "optimized": [parameter.name for parameter in update.parameters],
        "first_grads": first,
        "losses": [float(step(x, y)) for _ in range(params["steps"])],
        "params": {parameter.name: parameter.asnumpy() for parameter in net.get_parameters()},
    }


class ConvNet(nn.Cell):
    """Convolution, batch normalization, ReLU, pooling, a dense layer."""

    def __init__(self, inputs: Inputs, conv: Params) -> None:
        super().__init__()
        wc, wd = inputs["wc"], inputs["wd"]
        self.conv = nn.Conv2d(wc.shape[1], wc.shape[0], wc.shape[2:], weight_init=wc, **conv)
        self.bn = nn.BatchNorm2d(wc.shape[0])
        self.relu = nn.ReLU()
        self.pool = nn.MaxPool2d(2, 2)
        self.flatten = nn.Flatten()
        self.fc = dense(wd, inputs["bd"])

    def construct(self, x: Any) -> Any:
        return self.fc(self.flatten(self.pool(self.relu(self.bn(self.conv(x))))))


@runner("train_convnet")
def train_convnet(params: Params, inputs: Inputs) -> dict[str, Any]:
    net = ConvNet(inputs, params.get("conv", {}))
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    update = optimizer(params["optimizer"], net.trainable_params())
    step = nn.TrainOneStepCell(nn.WithLossCell(net, loss), update, sens=params["sens"]).set_train()
    losses = [float(step(inputs["x"], inputs["y"])) for _ in range(params["steps"])]
    after = {parameter.name: parameter.asnumpy() for parameter in net.get_parameters()}
    return {"losses": losses, "params": after, "eval_logits": net.set_train(False)(inputs["x"])}


@runner("optimizer_steps")
def optimizer_steps(params: Params, inputs: Inputs) -> dict[str, Any]:
    parameters = {name: Parameter(value, name=name) for name, value in inputs["params"].items()}
    listed: list[Any] = list(parameters.values())
    if "groups" in params:
        listed = [group | {"params": [parameters[name] for name in group["params"]]} for group in params["groups"]]
    update = optimizer(params["optimizer"], listed)
    order = [parameter.name for parameter in update.parameters]
    after = []
    for gradients in inputs["grads"]:
        by_name = dict(zip(parameters, gradients, strict=True))
        assert all(bool(done) for done in update(tuple(by_name[name] for name in order)))
        after.append({name: parameter.asnumpy() for name, parameter in parameters.items()})
    return {"after": after}


@runner("train_cell_names")
def train_cell_names(params: Params, inputs: Inputs) -> dict[str, Any]:
    def names(parameters: Any) -> list[str]:
        return [parameter.name for parameter in parameters]

    net = build(params["tree"])
    before = names(net.get_parameters())
    update = optimizer(params["optimizer"], net.trainable_params())
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), update)
    of_train_cell = names(step.get_parameters())
    return {
        "net_before": before,
        "net_after": names(net.get_parameters()),
        "train_cell": of_train_cell,
        "optimizer_state": [name for name in of_train_cell if name not in before],
        "optimizer_parameters": names(update.parameters),
        "weights_of_train_cell": names(step.weights),
    }


class PrintDemo(nn.Cell):
    """Three convolutions; the gradient may be cut after the first."""

    def __init__(self, inputs: Inputs, stop: bool) -> None:
        super().__init__()
        for i in (1, 2, 3):
            w = inputs[f"w{i}"]
            setattr(self, f"conv{i}", nn.Conv2d(w.shape[1], w.shape[0], w.shape[2:], pad_mode="valid", weight_init=w))
        self.stop = stop

    def construct(self, x: Any) -> Any:
        x = self.conv1(x)
        return self.conv3(self.conv2(ops.stop_gradient(x) if self.stop else x))


@runner("print_demo")
def print_demo(params: Params, inputs: Inputs) -> dict[str, Any]:
    net = PrintDemo(inputs, params["stop"])
    x = ops.ones((1, 1, 32, 32))
    out = net(x)
    gradients = grad(lambda x: net(x).sum(), None, net.trainable_params())(x)
    return {"shape": list(out.shape), "first": out[0, :, 0, 0], "grads": list(gradients)}
