"""Convolutions and transposed convolutions."""

from __future__ import annotations

from ..forms.networks import flat_padding, symmetric_padding
from ..text.expressions import call
from .network import Layer
from .table import Leaf, layer


@layer("conv")
def _(m: Leaf) -> Layer | None:
    names = m.parameter_attributes(weight=1, bias=2)
    if not m.maps_input() or names is None:
        return None
    outputs, _, *kernel = m.type(1).shape
    padded = any(size for pair in m["padding"] for size in pair)
    if padded and len(kernel) == 1:
        symmetric_padding(m["padding"])
    text = call(
        f"nn.Conv{len(kernel)}d",
        m.literal(m.type().shape[1], "in_channels"),
        m.literal(outputs, "out_channels"),
        m.each(kernel, "kernel_size"),
        stride=m.each(m["stride"], "stride"),
        pad_mode='"pad"' if padded else '"valid"',
        padding=flat_padding(m, m["padding"]) if padded else None,
        dilation=m.unless(1, m["dilation"], "dilation"),
        group=m.unless(1, m["groups"], "group"),
        has_bias="True" if "bias" in names else None,
        dtype=m.parameter_dtype(),
    ).text
    return Layer(text, names, unit_axes=len(kernel) == 1)


@layer("conv_transpose")
def _(m: Leaf) -> Layer | None:
    names = m.parameter_attributes(weight=1, bias=2)
    if not m.maps_input() or names is None:
        return None
    inputs, group_outputs, *kernel = m.type(1).shape
    output_padding = m["output_padding"]
    if not all(isinstance(size, int) for size in output_padding):
        return None
    if any(output_padding) and (len(kernel) == 1 or m.network.target == "mindspore"):
        return None  # MindSpore pads the output with zeros
    text = call(
        f"nn.Conv{len(kernel)}dTranspose",
        m.literal(inputs, "in_channels"),
        m.literal(group_outputs * m["groups"], "out_channels"),
        m.each(kernel, "kernel_size"),
        stride=m.each(m["stride"], "stride"),
        pad_mode='"pad"',
        padding=m.unless(0, tuple(size for pair in m["padding"] for size in pair), "padding"),
        output_padding=m.unless(0, output_padding, "output_padding"),
        dilation=m.unless(1, m["dilation"], "dilation"),
        group=m.unless(1, m["groups"], "group"),
        has_bias="True" if "bias" in names else None,
        dtype=m.parameter_dtype(),
    ).text
    return Layer(text, names, unit_axes=len(kernel) == 1)
