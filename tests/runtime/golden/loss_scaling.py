"""Loss scaling, overflow, clipping, accumulation."""

from __future__ import annotations

from typing import Any

from cellbridge.runtime import Tensor, amp, nn, ops, value_and_grad
from tests.runtime.golden.cases import Inputs, Params, runner
from tests.runtime.golden.networks import Linear, SeedNet, optimizer


@runner("static_loss_scale")
def static_loss_scale(params: Params, inputs: Inputs) -> dict[str, Any]:
    net = SeedNet(inputs["w"])
    scaler = amp.StaticLossScaler(params["scale"])

    def forward(x: Any, y: Any) -> Any:
        loss, logits = net(x, y)
        return scaler.scale(loss), logits

    run = value_and_grad(forward, None, net.trainable_params(), has_aux=True)
    (scaled_loss, logits), scaled = run(inputs["x"], inputs["y"])
    return {
        "scaled_loss": scaled_loss,
        "scaled_grads": scaled,
        "loss": scaler.unscale(scaled_loss),
        "grads": scaler.unscale(scaled),
        "finite": bool(amp.all_finite(scaled)),
        "logits": logits,
        "adjust_returns": scaler.adjust(Tensor(True)),
    }


@runner("dynamic_loss_scale_seq")
def dynamic_loss_scale_seq(params: Params, inputs: Inputs) -> dict[str, Any]:
    scaler = amp.DynamicLossScaler(params["scale_value"], params["scale_factor"], params["scale_window"])
    states = []
    for finite in params["finite"]:
        assert scaler.adjust(Tensor(finite)) is True
        states.append([float(scaler.scale_value), int(scaler.counter)])
    return {"scale_counter": states}


@runner("all_finite")
def all_finite(params: Params, inputs: Inputs) -> dict[str, Any]:
    return {"finite": bool(amp.all_finite(tuple(inputs["grads"])))}


@runner("clip_by_global_norm")
def clip_by_global_norm(params: Params, inputs: Inputs) -> dict[str, Any]:
    return {"clipped": ops.clip_by_global_norm(tuple(inputs["grads"]), **params)}


@runner("grad_accumulation")
def grad_accumulation(params: Params, inputs: Inputs) -> dict[str, Any]:
    net = Linear(inputs["w"], inputs["b"])
    loss = nn.MSELoss()
    update = optimizer(params["optimizer"], net.trainable_params())
    run = value_and_grad(lambda x, y: loss(net(x), y), None, net.trainable_params())
    x, y, count = inputs["x"], inputs["y"], params["micro"]
    size = x.shape[0] // count
    updates = []
    for _ in range(params["updates"]):
        losses, total = [], None
        for start in range(0, x.shape[0], size):
            value, gradients = run(x[start : start + size], y[start : start + size])
            losses.append(float(value))
            total = gradients if total is None else tuple(a + g for a, g in zip(total, gradients, strict=True))
        assert total is not None
        accumulated = tuple(g / count for g in total)
        _, full = run(x, y)
        update(accumulated)
        w, b = (parameter.asnumpy() for parameter in net.get_parameters())
        updates.append({"micro_losses": losses, "accumulated": accumulated, "full_batch": full, "w": w, "b": b})
    return {"updates": updates}


@runner("overflow_training")
def overflow_training(params: Params, inputs: Inputs) -> dict[str, Any]:
    net = Linear(inputs["w"])
    loss = nn.MSELoss()
    scaler = amp.DynamicLossScaler(params["scale_value"], params["scale_factor"], params["scale_window"])
    update = optimizer(params["optimizer"], net.trainable_params())
    run = value_and_grad(lambda x, y: scaler.scale(loss(net(x), y)), None, net.trainable_params())
    steps = []
    for x, y in zip(inputs["x"], inputs["y"], strict=True):
        _, scaled = run(x, y)
        gradients = scaler.unscale(scaled)
        finite = amp.all_finite(gradients)
        if finite:
            update(gradients)
        scaler.adjust(finite)
        steps.append({"finite": bool(finite), "scale": float(scaler.scale_value), "w": net.fc.weight.asnumpy()})
    return {"steps": steps}
