"""Dense layers, embeddings, dropout, flattening."""

from __future__ import annotations

from ..forms.shapes import flatten_start
from ..text.expressions import call
from .network import Layer
from .table import Leaf, layer


@layer("linear")
def _(m: Leaf) -> Layer | None:
    names = m.parameter_attributes(weight=1, bias=2)
    if not m.maps_input() or names is None:
        return None
    outputs, inputs = m.type(1).shape
    text = call(
        "nn.Dense",
        m.literal(inputs, "in_channels"),
        m.literal(outputs, "out_channels"),
        has_bias=None if "bias" in names else "False",
        dtype=m.parameter_dtype(),
    ).text
    return Layer(text, names)


@layer("embedding")
def _(m: Leaf) -> Layer | None:
    """The layer doesn't support a row without gradient (torch's `padding_idx`)."""
    names = m.parameter_attributes(embedding_table=0)
    if m.nodes != [m.node] or m.inputs != [m.node.inputs[1]] or m.outputs != [m.node.outputs[0]] or names is None:
        return None
    if m["padding_index"] is not None:
        return None
    size, width = m.type().shape
    sizes = m.literal(size, "vocab_size"), m.literal(width, "embedding_size")
    return Layer(call("nn.Embedding", *sizes, dtype=m.parameter_dtype(0)).text, names)


@layer("dropout")
def _(m: Leaf) -> Layer | None:
    if not m.maps_input() or m.module.state or (m["features"] and not 3 <= m.type().rank <= 5):
        return None
    kind = f"nn.Dropout{m.type().rank - 2}d" if m["features"] else "nn.Dropout"
    return Layer(call(kind, p=m.literal(m["p"], "dropout")).text)


@layer("reshape")
def _(m: Leaf) -> Layer | None:
    start = flatten_start(m.type().shape, m.out.shape)
    if not m.maps_input() or m.module.state or start != 1:
        return None
    return Layer("nn.Flatten()")
