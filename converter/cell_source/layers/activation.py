"""Activations."""

from __future__ import annotations

from ..text.expressions import call
from .network import Layer
from .table import Leaf, layer

PLAIN = {
    "relu": "ReLU", "silu": "SiLU", "sigmoid": "Sigmoid", "tanh": "Tanh", "selu": "SeLU", "hardswish": "HSwish",
    "hardsigmoid": "HSigmoid", "mish": "Mish", "log_sigmoid": "LogSigmoid",
}  # fmt: skip


@layer(*PLAIN)
def _(m: Leaf) -> Layer | None:
    return _activation(m, PLAIN[m.node.op])


@layer("gelu")
def _(m: Leaf) -> Layer | None:
    return _activation(m, "GELU", approximate="False" if m["approximate"] == "none" else None)


@layer("leaky_relu")
def _(m: Leaf) -> Layer | None:
    return _activation(m, "LeakyReLU", alpha=m.literal(m["negative_slope"], "alpha"))


@layer("elu")
def _(m: Leaf) -> Layer | None:
    """Only if alpha is 1: other values aren't supported on every device."""
    return _activation(m, "ELU") if (m["alpha"], m["scale"], m["input_scale"]) == (1.0, 1.0, 1.0) else None


@layer("hardtanh", "clamp")
def _(m: Leaf) -> Layer | None:
    low, high = m["minimum"], m["maximum"]
    if low is None or high is None:
        return None
    if (low, high) == (0.0, 6.0):
        return _activation(m, "ReLU6")
    return _activation(m, "Hardtanh", min_val=m.literal(float(low), "low"), max_val=m.literal(float(high), "high"))


@layer("softmax", "log_softmax")
def _(m: Leaf) -> Layer | None:
    kind = "Softmax" if m.node.op == "softmax" else "LogSoftmax"
    axis = -1 if m["axis"] % m.type().rank == m.type().rank - 1 else m["axis"]
    return _activation(m, kind, axis=m.literal(axis, "axis"))


@layer("prelu")
def _(m: Leaf) -> Layer | None:
    names = m.parameter_attributes(w=1)
    if not m.maps_input() or names is None or m.parameter_dtype() is not None:
        return None
    return Layer(call("nn.PReLU", m.literal(m.type(1).shape[0], "channel")).text, names)


def _activation(m: Leaf, kind: str, **arguments: str | None) -> Layer | None:
    if not m.maps_input() or m.module.state:
        return None
    return Layer(call(f"nn.{kind}", **arguments).text)
