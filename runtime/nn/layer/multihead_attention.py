"""Multi-head attention."""

from __future__ import annotations

from typing import Any

from ... import checks
from ...common.dtype import float32
from ...common.initializer import XavierNormal, XavierUniform, initializer
from ...common.parameter import Parameter
from ...functional.attention import attend, join_masks, reshape_mask
from ...functional.joining import part
from ...functional.linear_algebra import dense
from ...functional.operands import as_tensor
from ...ops import creation, reduction, shaping, slicing
from ..cell import Cell
from .basic import Dense


class MultiheadAttention(Cell):
    """Multi-head attention (Vaswani et al. 2017, section 3.2.2).

    Queries, keys and values are projected; each head computes `softmax(q k^T / sqrt(features)) v` on its part of the
    features; and the concatenated results are projected.

    Args:
        embed_dim: features of queries and outputs, a multiple of `num_heads`.
        num_heads: number of heads.
        dropout: probability in [0, 1) of dropping attention weights, in training.
        has_bias: whether the projections have biases.
        add_bias_kv: whether to append a learned key and value.
        add_zero_attn: whether to append a key and value of zeros.
        kdim: features of the keys; None: `embed_dim`.
        vdim: features of the values; None: `embed_dim`.
        batch_first: whether inputs and outputs are (batch, length, features) rather than (length, batch, features).
        dtype: dtype of the Parameters; None is float32.

    Attributes:
        in_proj_weight: Parameter (3 * embed_dim, embed_dim), for queries, keys and values; None if `kdim` or `vdim`
            differs from `embed_dim`: then there are `q_proj_weight`, `k_proj_weight` and `v_proj_weight`,
            (embed_dim, features) each.
        in_proj_bias: Parameter (3 * embed_dim,), or None.
        out_proj: Dense.
        bias_k: Parameter (1, 1, embed_dim), or None; `bias_v` likewise.

    Inputs:
        query: (queries, batch, embed_dim); without batch (queries, embed_dim).
        key: (keys, batch, kdim), likewise.
        value: (keys, batch, vdim), likewise.
        key_padding_mask: (batch, keys), without batch (keys,): True for keys to ignore, or numbers to add to their
            scores.
        need_weights: whether to return the weights.
        attn_mask: (queries, keys) or (batch * num_heads, queries, keys): True where a query must not attend to a key,
            or numbers to add to the scores.
        average_attn_weights: whether the weights are the mean over heads.

    Outputs:
        A tuple: the output, with the shape of `query`; and, with `need_weights`, the weights (batch, queries, keys), or
        (batch, num_heads, queries, keys) by head, without batch if there is none. A query that may attend to no key
        gets zeros.

    Raises:
        TypeError: an argument has the wrong type; in a call, the dtype of an input isn't that of the weights, or a mask
            is neither bool nor floating-point.
        ValueError: an argument is out of range, or `embed_dim` isn't a multiple of `num_heads`; in a call, a shape
            doesn't fit.
    """

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, has_bias: bool = True, add_bias_kv: bool = False,
        add_zero_attn: bool = False, kdim: int | None = None, vdim: int | None = None, batch_first: bool = False,
        dtype: Any = float32,
    ) -> None:  # fmt: skip
        super().__init__()
        of = self.cls_name
        self.embed_dim = checks.positive_int(embed_dim, "embed_dim", of=of)
        self.num_heads = checks.positive_int(num_heads, "num_heads", of=of)
        if embed_dim % num_heads:
            raise ValueError(
                f"For '{of}', 'embed_dim' must be a multiple of 'num_heads', but got {embed_dim} and {num_heads}"
            )
        self.head_dim = embed_dim // num_heads
        self.dropout = checks.in_range(dropout, "dropout", "[0, 1)", of=of)
        checks.of_type(has_bias, "has_bias", bool, of=of)
        checks.of_type(add_bias_kv, "add_bias_kv", bool, of=of)
        self.add_zero_attn = checks.of_type(add_zero_attn, "add_zero_attn", bool, of=of)
        self.kdim = embed_dim if kdim is None else checks.positive_int(kdim, "kdim", of=of)
        self.vdim = embed_dim if vdim is None else checks.positive_int(vdim, "vdim", of=of)
        self.batch_first = checks.of_type(batch_first, "batch_first", bool, of=of)
        self.dtype = float32 if dtype is None else dtype
        is_packed = self.kdim == self.vdim == embed_dim

        def parameter(name: str, init: Any, *shape: int) -> Parameter:
            return Parameter(initializer(init, shape, self.dtype), name=name)

        self.in_proj_weight = (
            parameter("in_proj_weight", XavierUniform(), 3 * embed_dim, embed_dim) if is_packed else None
        )
        for name, features in (("q", embed_dim), ("k", self.kdim), ("v", self.vdim)):
            weight = f"{name}_proj_weight"
            setattr(self, weight, None if is_packed else parameter(weight, XavierUniform(), embed_dim, features))
        self.in_proj_bias = parameter("in_proj_bias", "zeros", 3 * embed_dim) if has_bias else None
        self.out_proj = Dense(embed_dim, embed_dim, has_bias=has_bias, dtype=self.dtype)
        self.bias_k = parameter("bias_k", XavierNormal(), 1, 1, embed_dim) if add_bias_kv else None
        self.bias_v = parameter("bias_v", XavierNormal(), 1, 1, embed_dim) if add_bias_kv else None

    def construct(
        self, query: Any, key: Any, value: Any, key_padding_mask: Any = None, need_weights: bool = True,
        attn_mask: Any = None, average_attn_weights: bool = True,
    ) -> tuple[Any, ...]:  # fmt: skip
        """Queries, keys and values; returns a tuple of the output and, with `need_weights`, the weights."""
        query, key, value = self._check(query, key, value)
        shape = query.shape
        # Without a batch, and with the batch first, the axes are (batch, length, features) until the heads are split.
        batch, length = (0, 1) if self.batch_first or query.ndim == 2 else (1, 0)
        if query.ndim == 2:
            query, key, value = (shaping.reshape(x, shape=(1, *x.shape)) for x in (query, key, value))
        q, k, v = (
            self._split_heads(dense(x, *projection), batch, length)
            for x, projection in zip((query, key, value), self._projections(), strict=True)
        )
        keys = k.shape[2]
        k, v = self._append_keys(k, self.bias_k), self._append_keys(v, self.bias_v)
        mask = self._mask(attn_mask, key_padding_mask, q, keys, k.shape[2] - keys, unbatched=len(shape) == 2)
        y, weights = attend(q, k, v, mask, dropout=self.dropout if self.training else 0.0, need_weights=need_weights)
        order = (0, 2, 1, 3) if batch == 0 else (2, 0, 1, 3)
        y = shaping.reshape(shaping.transpose(y, permutation=order), shape=shape)
        y = dense(y, self.out_proj.weight, self.out_proj.bias)
        if not need_weights:
            return (y,)
        if average_attn_weights:
            weights = reduction.reduce_mean(weights, axes=(1,))
        return y, shaping.reshape(weights, shape=weights.shape[1:]) if len(shape) == 2 else weights

    def _check(self, query: Any, key: Any, value: Any) -> tuple[Any, Any, Any]:
        """Check that the inputs are tensors whose shapes fit together, and return them."""
        of = self.cls_name
        named = {"query": self.embed_dim, "key": self.kdim, "value": self.vdim}
        q, k, v = (as_tensor(x, name, of=of) for x, name in zip((query, key, value), named, strict=True))
        for x, (name, features) in zip((q, k, v), named.items(), strict=True):
            if x.ndim not in (2, 3) or x.ndim != q.ndim or x.shape[-1] != features:
                raise ValueError(
                    f"For '{of}', '{name}' must have 3 dimensions, or all inputs 2, the last of size {features}, but "
                    f"got shape {tuple(x.shape)}"
                )
        at = 0 if self.batch_first else 1
        if k.shape[:-1] != v.shape[:-1] or (q.ndim == 3 and q.shape[at] != k.shape[at]):
            raise ValueError(
                f"For '{of}', the batch sizes must be equal, with as many keys as values, but got {tuple(q.shape)}, "
                f"{tuple(k.shape)} and {tuple(v.shape)}"
            )
        return q, k, v

    def _projections(self) -> list[tuple[Any, Any]]:
        """Return weight and bias (or None) for queries, keys and values."""
        size = self.embed_dim
        packed, bias = self.in_proj_weight, self.in_proj_bias
        weights = [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]
        if packed is not None:
            weights = [part(packed, 0, i * size, (i + 1) * size) for i in range(3)]
        biases = [None if bias is None else part(bias, 0, i * size, (i + 1) * size) for i in range(3)]
        return list(zip(weights, biases, strict=True))

    def _split_heads(self, x: Any, batch: int, length: int) -> Any:
        """Reshape a 3-D tensor, whose last axis is features, to (batch, heads, length, features of a head)."""
        split = shaping.reshape(x, shape=(*x.shape[:2], self.num_heads, self.head_dim))
        return shaping.transpose(split, permutation=(batch, 2, length, 3))

    def _append_keys(self, k: Any, bias: Any) -> Any:
        """Append the learned item and the zeros to keys or values, (batch, heads, keys, features)."""
        shape = (*k.shape[:2], 1, self.head_dim)
        added = []
        if bias is not None:
            heads = shaping.reshape(bias, shape=(1, self.num_heads, 1, self.head_dim))
            added.append(shaping.expand(heads, shape=shape))
        if self.add_zero_attn:
            added.append(creation.full_like(k, 0.0, shape=shape))
        return slicing.concat(k, *added, axis=2) if added else k

    def _mask(self, attn_mask: Any, key_padding_mask: Any, q: Any, keys: Any, added: int, *, unbatched: bool) -> Any:
        of, (batch, heads, queries, _) = self.cls_name, q.shape
        each = {
            (queries, keys): (1, 1, queries, keys),
            (batch * heads, queries, keys): (batch, heads, queries, keys),
        }
        padded = {(keys,) if unbatched else (batch, keys): (batch, 1, 1, keys)}
        masks = [
            reshape_mask(attn_mask, "attn_mask", each, of=of),
            reshape_mask(key_padding_mask, "key_padding_mask", padded, of=of),
        ]
        if added:  # every query may attend to them
            none = (0, 0, 0)
            masks = [
                None if mask is None else slicing.pad(mask, before=(*none, 0), after=(*none, added)) for mask in masks
            ]
        return join_masks(*masks, like=q)

    def extend_repr(self) -> str:
        """The main arguments."""
        return (
            f"embed_dim={self.embed_dim}, num_heads={self.num_heads}, dropout={self.dropout}, "
            f"batch_first={self.batch_first}"
        )
