"""The table: recurrent layers and attention."""

from __future__ import annotations

from .entry import Difference, Finding, LayerPair, argument
from .reading import read_argument

RECURRENT = ("LSTM", "GRU", "RNN")
RECURRENT_CELLS = ("LSTMCell", "GRUCell", "RNNCell")


def _projection(pair: LayerPair) -> Finding | None:
    size = read_argument(pair.module, "proj_size")
    if not isinstance(size, int) or size == 0:
        return None
    return Finding(
        "proj_size=0 (there is no other)", f"proj_size={size}", f"a step of its own, with a Dense to {size} in it"
    )


SEQUENCES = (
    argument((*RECURRENT, *RECURRENT_CELLS), "input_size"),
    argument((*RECURRENT, *RECURRENT_CELLS), "hidden_size"),
    argument((*RECURRENT, *RECURRENT_CELLS), "has_bias", "bias", "Another name; Parameters have torch's names."),
    argument(RECURRENT, "num_layers"),
    argument(RECURRENT, "batch_first", rule="False, as in torch: (time, batch, features)."),
    argument(RECURRENT, "bidirectional"),
    argument(RECURRENT, "dropout", rule="The probability of dropping an element, unlike that of Dropout."),
    argument(("RNN", "RNNCell"), "nonlinearity"),
    Difference(("LSTM",), "", "proj_size", _projection, "There are no projections of the state."),
    argument(("MultiheadAttention",), "num_heads"),
    argument(("MultiheadAttention",), "embed_dim"),
    argument(("MultiheadAttention",), "batch_first"),
    argument(("MultiheadAttention",), "dropout"),
    argument(
        ("MultiheadAttention",),
        "has_bias",
        "bias",
        "Another name.",
        of_cell=lambda pair: read_argument(pair.cell, "in_proj_bias") is not None,
        of_module=lambda pair: read_argument(pair.module, "in_proj_bias") is not None,
    ),
    argument(
        ("MultiheadAttention",),
        "add_bias_kv",
        of_cell=lambda pair: read_argument(pair.cell, "bias_k") is not None,
        of_module=lambda pair: read_argument(pair.module, "bias_k") is not None,
    ),
    argument(("MultiheadAttention",), "add_zero_attn"),
    argument(("TransformerEncoderLayer", "TransformerDecoderLayer"), "norm_first"),
)
