"""LSTM, GRU and RNN layers: each has many ops, one recurrent op per layer and direction."""

from __future__ import annotations

from ..text.expressions import call
from .network import Layer
from .table import Leaf, layer

AROUND = {"full", "slice", "reshape", "transpose", "concat", "dropout"}


@layer("lstm", "gru", "rnn")
def _(m: Leaf) -> Layer | None:
    op = m.node.op
    steps = [node for node in m.nodes if node.op == op]
    states = 3 if op == "lstm" else 2
    weights = states  # the position of the weights among the operands
    if {node.op for node in m.nodes} - {op} - AROUND or len(m.inputs) not in (1, states) or len(m.outputs) != states:
        return None
    bidirectional = any(node.attributes["reverse"] for node in steps)
    directions = 2 if bidirectional else 1
    names: list[str] = []
    for i, node in enumerate(steps):
        suffix = f"l{i // directions}" + ("_reverse" if i % directions else "")
        names_of_layer = [f"weight_ih_{suffix}", f"weight_hh_{suffix}", f"bias_ih_{suffix}", f"bias_hh_{suffix}"]
        weight_values = [value for value in node.inputs[weights : weights + 4] if value is not None]
        if any(value is not None for value in node.inputs[weights + 4 :]) or len(weight_values) not in (2, 4):
            return None
        for name, value in zip(names_of_layer, weight_values, strict=False):
            if (m.module, name) not in m.network.owners(value):
                return None
        names += names_of_layer[: len(weight_values)]
        if node.attributes["reverse"] != bool(i % directions) or node.attributes.get("nonlinearity", "tanh") != "tanh":
            return None
    if set(m.module.state) != set(names) or m.inputs[0].type.rank != 3:
        return None
    batch_first = m.node.inputs[0] != m.inputs[0]
    rates = {node.attributes["p"] for node in m.nodes if node.op == "dropout"}
    hidden, width = steps[0].outputs[-1].shape[-1], m.type().shape[-1]
    text = call(
        f"nn.{op.upper()}",
        m.literal(width, "input_size"),
        m.literal(hidden, "hidden_size"),
        num_layers=m.unless(1, len(steps) // directions, "num_layers"),
        has_bias=None if len(names) == 4 * len(steps) else "False",
        batch_first="True" if batch_first else None,
        dropout=m.literal(rates.pop(), "dropout") if rates else None,
        bidirectional="True" if bidirectional else None,
        dtype=m.parameter_dtype(weights),
    ).text
    is_lstm = op == "lstm"
    argument_pattern = "{0}" if len(m.inputs) == 1 else "{0}, ({1}, {2})" if is_lstm else "{0}, {1}"
    return Layer(text, {n: n for n in names}, argument_pattern, "{0}, ({1}, {2})" if is_lstm else "{0}, {1}")
