"""Transformers: encoder and decoder layers, stacks of layers, and the whole model. See also `multihead_attention`."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from ... import checks
from ...common.dtype import float32
from ...common.initializer import initializer
from ..cell import Cell
from .activation import FUNCTIONS
from .basic import Dense, Dropout
from .container import CellList
from .multihead_attention import MultiheadAttention
from .normalization import LayerNorm

__all__ = [
    "MultiheadAttention",
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]


class _TransformerLayer(Cell):
    """Attention blocks and a feed-forward network, each with a residual connection and a normalization."""

    attentions: tuple[str, ...]

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1, activation: Any = "relu",
        layer_norm_eps: float = 1e-5, batch_first: bool = False, norm_first: bool = False, dtype: Any = float32,
    ) -> None:  # fmt: skip
        super().__init__()
        dtype = float32 if dtype is None else dtype
        for name in self.attentions:
            attention = MultiheadAttention(d_model, nhead, dropout, batch_first=batch_first, dtype=dtype)
            setattr(self, name, attention)
        self.dense1 = Dense(d_model, dim_feedforward, dtype=dtype)
        self.dropout = Dropout(p=dropout)
        self.dense2 = Dense(dim_feedforward, d_model, dtype=dtype)
        for i in range(len(self.attentions) + 1):
            setattr(self, f"norm{i + 1}", LayerNorm((d_model,), epsilon=layer_norm_eps, dtype=dtype))
        for i in range(len(self.attentions) + 1):
            setattr(self, f"dropout{i + 1}", Dropout(p=dropout))
        self.activation = self._function(activation)
        self.norm_first = checks.of_type(norm_first, "norm_first", bool, of=self.cls_name)
        self.d_model = d_model
        self.nhead = nhead
        self.dim_feedforward = dim_feedforward
        self.batch_first = batch_first

    def _function(self, activation: Any) -> Callable[[Any], Any]:
        if isinstance(activation, str):
            return FUNCTIONS[checks.one_of(activation, "activation", tuple(FUNCTIONS), of=self.cls_name)]
        if not callable(activation):
            raise ValueError(
                f"For '{self.cls_name}', 'activation' must be a name, a Cell or a function, but got {activation!r}"
            )
        return activation  # type: ignore[no-any-return]

    def _add_residual(self, x: Any, norm: Cell, block: Callable[[Any], Any]) -> Any:
        """Return `x + block(x)`, normalized before the block or after the sum."""
        return x + block(norm(x)) if self.norm_first else norm(x + block(x))

    def _feed_forward(self, x: Any) -> Any:
        return self.dense2(self.dropout(self.activation(self.dense1(x))))

    def extend_repr(self) -> str:
        """The main arguments."""
        return (
            f"d_model={self.d_model}, nhead={self.nhead}, dim_feedforward={self.dim_feedforward}, "
            f"norm_first={self.norm_first}"
        )


class TransformerEncoderLayer(_TransformerLayer):
    """Self-attention and a feed-forward network (Vaswani et al. 2017, section 3.1).

    Args:
        d_model: features of input and output.
        nhead: heads of the attention; `d_model` is a multiple of it.
        dim_feedforward: features between the two dense layers.
        dropout: the dropout probability in [0, 1), in training, also for attention weights.
        activation: between the dense layers: "relu", "gelu" (the exact one), a Cell or a function.
        layer_norm_eps: added to the variance in the normalizations.
        batch_first: whether the batch is the first axis of inputs and output, not the second.
        norm_first: whether to normalize before each block rather than after the residual connection.
        dtype: dtype of the Parameters; None is float32.

    Inputs:
        src: (length, batch, d_model), or as `batch_first` says; without batch (length, d_model).
        src_mask: True for positions to ignore, or numbers added to scores; see `MultiheadAttention`.
        src_key_padding_mask: True for padding, (batch, length).

    Outputs:
        The shape of `src`.

    Raises:
        TypeError, ValueError: as for `MultiheadAttention`; `ValueError` too for another activation.
    """

    attentions = ("self_attn",)

    def construct(self, src: Any, src_mask: Any = None, src_key_padding_mask: Any = None) -> Any:
        """(length, batch, d_model), or as `batch_first` says; returns the same shape."""

        def self_attention(x: Any) -> Any:
            return self.dropout1(self.self_attn(x, x, x, src_key_padding_mask, False, src_mask)[0])

        x = self._add_residual(src, self.norm1, self_attention)
        return self._add_residual(x, self.norm2, lambda x: self.dropout2(self._feed_forward(x)))


class TransformerDecoderLayer(_TransformerLayer):
    """Self-attention, cross-attention to an encoder, and a feed-forward network (Vaswani et al. 2017, section 3.1).

    Arguments and errors are those of `TransformerEncoderLayer`.

    Inputs:
        tgt: (length, batch, d_model), or as `batch_first` says; without batch (length, d_model).
        memory: the output of the encoder, likewise.
        tgt_mask: the mask of the self-attention; see `MultiheadAttention`.
        memory_mask: the mask of the cross-attention to `memory`.
        tgt_key_padding_mask: True for padding in `tgt`, (batch, length).
        memory_key_padding_mask: True for padding in `memory`, likewise.

    Outputs:
        The shape of `tgt`.
    """

    attentions = ("self_attn", "multihead_attn")

    def construct(
        self, tgt: Any, memory: Any, tgt_mask: Any = None, memory_mask: Any = None, tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
    ) -> Any:  # fmt: skip
        """(length, batch, d_model), or as `batch_first` says, twice; returns the shape of the first."""

        def self_attention(x: Any) -> Any:
            return self.dropout1(self.self_attn(x, x, x, tgt_key_padding_mask, False, tgt_mask)[0])

        def cross_attention(x: Any) -> Any:
            result = self.multihead_attn(x, memory, memory, memory_key_padding_mask, False, memory_mask)
            return self.dropout2(result[0])

        x = self._add_residual(tgt, self.norm1, self_attention)
        x = self._add_residual(x, self.norm2, cross_attention)
        return self._add_residual(x, self.norm3, lambda x: self.dropout3(self._feed_forward(x)))


class _Stack(Cell):
    def __init__(self, layer: Any, name: str, num_layers: int, norm: Cell | None) -> None:
        super().__init__()
        checks.of_type(layer, name, Cell, of=self.cls_name)
        self.num_layers = checks.positive_int(num_layers, "num_layers", of=self.cls_name)
        self.layers = CellList([copy.deepcopy(layer) for _ in range(num_layers)])
        self.norm = None if norm is None else checks.of_type(norm, "norm", Cell, of=self.cls_name)


class TransformerEncoder(_Stack):
    """Encoder layers one after another.

    Args:
        encoder_layer: each layer starts as a copy of it.
        num_layers: the number of layers.
        norm: a normalization of the output; None for none.

    Inputs and outputs are those of `TransformerEncoderLayer`.
    """

    def __init__(self, encoder_layer: Any, num_layers: int, norm: Cell | None = None) -> None:
        super().__init__(encoder_layer, "encoder_layer", num_layers, norm)

    def construct(self, src: Any, src_mask: Any = None, src_key_padding_mask: Any = None) -> Any:
        """(length, batch, d_model), or as the layers have it; returns the same shape."""
        for layer in self.layers:
            src = layer(src, src_mask, src_key_padding_mask)
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(_Stack):
    """Decoder layers one after another; `decoder_layer`, `num_layers` and `norm` are as for `TransformerEncoder`.

    Inputs and outputs are those of `TransformerDecoderLayer`.
    """

    def __init__(self, decoder_layer: Any, num_layers: int, norm: Cell | None = None) -> None:
        super().__init__(decoder_layer, "decoder_layer", num_layers, norm)

    def construct(
        self, tgt: Any, memory: Any, tgt_mask: Any = None, memory_mask: Any = None, tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
    ) -> Any:  # fmt: skip
        """(length, batch, d_model), or as the layers have it, twice; returns the shape of the first."""
        for layer in self.layers:
            tgt = layer(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Cell):
    """An encoder, and a decoder that attends to its output (Vaswani et al. 2017), each with a final normalization.

    Matrices are initialized by Xavier's uniform distribution.

    Args:
        d_model: features of inputs and output.
        nhead: heads of each attention.
        num_encoder_layers: layers of the encoder.
        num_decoder_layers: layers of the decoder.
        dim_feedforward: as for `TransformerEncoderLayer`, as are `dropout` and `activation`.
        dropout: probability in [0, 1).
        activation: "relu", "gelu", a Cell or a function.
        custom_encoder: a Cell that replaces the encoder, with the inputs of `TransformerEncoder`.
        custom_decoder: a Cell that replaces the decoder, with the inputs of `TransformerDecoder`.
        layer_norm_eps: see `TransformerEncoderLayer`.
        batch_first: see `TransformerEncoderLayer`.
        norm_first: see `TransformerEncoderLayer`.
        dtype: dtype of the Parameters; None is float32.

    Inputs:
        src: (source length, batch, d_model), or as `batch_first` says; without batch (source length, d_model).
        tgt: (target length, batch, d_model), likewise.
        src_mask, tgt_mask, memory_mask, src_key_padding_mask, tgt_key_padding_mask, memory_key_padding_mask: masks, as
            encoder and decoder take them.

    Outputs:
        The shape of `tgt`.

    Raises:
        ValueError: `src` and `tgt` differ in batch size, or their features aren't `d_model`.
    """

    def __init__(
        self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6, num_decoder_layers: int = 6,
        dim_feedforward: int = 2048, dropout: float = 0.1, activation: Any = "relu",
        custom_encoder: Cell | None = None, custom_decoder: Cell | None = None, layer_norm_eps: float = 1e-5,
        batch_first: bool = False, norm_first: bool = False, dtype: Any = float32,
    ) -> None:  # fmt: skip
        super().__init__()
        arguments = (
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, dtype,
        )  # fmt: skip

        def norm() -> LayerNorm:
            return LayerNorm((d_model,), epsilon=layer_norm_eps, dtype=float32 if dtype is None else dtype)

        if custom_encoder is None:
            custom_encoder = TransformerEncoder(TransformerEncoderLayer(*arguments), num_encoder_layers, norm())
        if custom_decoder is None:
            custom_decoder = TransformerDecoder(TransformerDecoderLayer(*arguments), num_decoder_layers, norm())
        self.encoder, self.decoder = custom_encoder, custom_decoder
        for parameter in self.get_parameters():
            if parameter.ndim > 1:
                parameter.set_data(initializer("xavier_uniform", parameter.shape, parameter.dtype))
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def construct(
        self, src: Any, tgt: Any, src_mask: Any = None, tgt_mask: Any = None, memory_mask: Any = None,
        src_key_padding_mask: Any = None, tgt_key_padding_mask: Any = None, memory_key_padding_mask: Any = None,
    ) -> Any:  # fmt: skip
        """(source length, batch, d_model) and (target length, batch, d_model), or as `batch_first` says."""
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise ValueError(
                f"For 'Transformer', 'src' and 'tgt' must have {self.d_model} features, but got {tuple(src.shape)} and "
                f"{tuple(tgt.shape)}"
            )
        at = 0 if self.batch_first else 1
        if src.ndim == 3 and (tgt.ndim != 3 or src.shape[at] != tgt.shape[at]):
            raise ValueError(
                f"For 'Transformer', 'src' and 'tgt' must have the same batch size, but got {tuple(src.shape)} and "
                f"{tuple(tgt.shape)}"
            )
        memory = self.encoder(src, src_mask, src_key_padding_mask)
        return self.decoder(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
