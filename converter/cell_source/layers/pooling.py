"""Pooling layers."""

from __future__ import annotations

from ..forms.networks import flat_padding, symmetric_padding
from ..text.expressions import call, tuple_literal
from .network import Layer
from .table import Leaf, layer


@layer("max_pool", "avg_pool")
def _(m: Leaf) -> Layer | None:
    if not m.maps_input() or m.module.state:
        return None
    count, is_average = m.type().rank - 2, m.node.op == "avg_pool"
    symmetric_padding(m["padding"])
    padded = m["ceil_mode"] or any(size for pair in m["padding"] for size in pair)
    if count == 3 and padded:
        return None
    divisor = m["divisor_override"] if is_average else None
    text = call(
        f"nn.{'Avg' if is_average else 'Max'}Pool{count}d",
        kernel_size=m.each(m["kernel"], "kernel_size"),
        stride=m.each(m["stride"], "stride"),
        pad_mode='"pad"' if padded else None,
        padding=flat_padding(m, m["padding"]) if padded else None,
        dilation=None if is_average else m.unless(1, m["dilation"], "dilation"),
        ceil_mode="True" if m["ceil_mode"] else None,
        count_include_pad="False" if is_average and not m["count_include_pad"] else None,
        divisor_override=None if divisor is None else m.literal(divisor, "divisor"),
    ).text
    return Layer(text)


@layer("adaptive_avg_pool", "adaptive_max_pool")
def _(m: Leaf) -> Layer | None:
    size = m["output_size"]
    if not m.maps_input() or m.module.state or not all(isinstance(n, int) for n in size):
        return None
    kind = "Avg" if m.node.op == "adaptive_avg_pool" else "Max"
    sizes = [m.literal(n, "output_size") for n in size]
    return Layer(call(f"nn.Adaptive{kind}Pool{len(size)}d", sizes[0] if len(size) == 1 else tuple_literal(sizes)).text)
