"""Recurrent mixers: linear attention and the causal convolution before it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ....runtime.errors import ShapeError
from ....runtime.ir.types import Type, at_least_float32
from ....runtime.ops import convolution, creation, elementwise, linear, self_gated, shaping, slicing
from ....runtime.ops.higher_order import loops
from ....runtime.programs.subprograms import trace_subprogram
from ....runtime.tracing import SymbolicTensor
from .context import Context
from .heads import align, part
from .table import cast, onnx
from .whole import as_single_node

# by update rule: whether it decays the state, and whether it writes the difference from the recalled value
RULES = {"linear": (False, False), "gated": (True, False), "delta": (False, True), "gated_delta": (True, True)}


@onnx("LinearAttention")
def linear_attention(
    context: Context, query: SymbolicTensor, key: SymbolicTensor, value: SymbolicTensor,
    past_state: SymbolicTensor | None = None,
    decay: SymbolicTensor | None = None, beta: SymbolicTensor | None = None, *, kv_num_heads: int, q_num_heads: int,
    chunk_size: int = 64, scale: float = 0.0, update_rule: str = "gated_delta",
) -> Any:  # fmt: skip
    """LinearAttention-27(query, key, value, past_state?, decay?, beta?) -> output, present_state

    `state = exp(decay) * state + key ⊗ update; output = scale * query @ state`, step by step; the update is the value
    or, with a delta rule, `beta * (value - key @ state)`.
    """
    if update_rule not in RULES:
        raise ShapeError(f"update_rule must be one of {', '.join(RULES)}, given {update_rule!r}")
    decays, corrects = RULES[update_rule]
    for name, x, needed in (("decay", decay, decays), ("beta", beta, corrects)):
        if needed and x is None:
            raise ShapeError(f"update_rule {update_rule!r} needs the operand {name}")
    if kv_num_heads < 1 or q_num_heads < 1 or q_num_heads % kv_num_heads:
        raise ShapeError(f"{q_num_heads} heads of queries can't share {kv_num_heads} heads of keys")
    dk, dv = _check(query, key, value, q_num_heads, kv_num_heads)
    if past_state is not None and past_state.ndim != 4:
        raise ShapeError(f"past_state must have 4 dimensions, given {tuple(past_state.shape)}")
    _check_gate("decay", decay if decays else None, (kv_num_heads, kv_num_heads * dk))
    _check_gate("beta", beta if corrects else None, (kv_num_heads, 1))
    factor = scale or 1 / math.sqrt(dk)

    def definition(query: Any, key: Any, value: Any, past: Any, decay: Any, beta: Any) -> list[Any]:
        batch, length = query.shape[:2]
        wide = at_least_float32(query.dtype)
        state_shape = (batch, kv_num_heads, dk, dv)
        if past is None:
            state = query.builder.create(creation.full, shape=state_shape, value=0.0, dtype=wide)
        else:
            state = cast(align(past, state_shape), wide)
        sliced = [
            _steps(x, batch, length, heads, wide)
            for x, heads in ((query, q_num_heads), (key, kv_num_heads), (value, kv_num_heads))
        ]
        if decays:
            sliced.append(_steps(decay, batch, length, kv_num_heads, wide))
        if corrects:
            sliced.append(_steps(beta, batch, length, beta.shape[2], wide))

        def step(state: Any, q: Any, k: Any, v: Any, *gates: Any) -> list[Any]:
            remaining = iter(gates)
            if decays:
                g = next(remaining)  # (batch, heads, 1 or features of keys)
                state = state * elementwise.exp(shaping.reshape(g, shape=(*g.shape, 1)))
            update = shaping.reshape(v, shape=(batch, kv_num_heads, 1, dv))
            row = shaping.reshape(k, shape=(batch, kv_num_heads, 1, dk))
            if corrects:
                rate = next(remaining)
                rate = shaping.reshape(rate, shape=(*rate.shape, 1))
                update = (update - linear.matmul(row, state)) * rate
            state = state + shaping.reshape(k, shape=(batch, kv_num_heads, dk, 1)) * update
            shared = shaping.reshape(q, shape=(batch, kv_num_heads, q_num_heads // kv_num_heads, dk))
            y = linear.matmul(shared, state) * factor
            return [state, shaping.reshape(y, shape=(batch, q_num_heads, dv))]

        types = [Type(wide, state_shape), *(Type(wide, tuple(x.shape[1:])) for x in sliced)]
        body = trace_subprogram(step, types, "step")
        state, rows = loops.scan(state, *sliced, body=body, carried=1, scanned=len(sliced))
        output = shaping.transpose(rows, permutation=(1, 0, 2, 3))
        output = shaping.reshape(output, shape=(batch, length, q_num_heads * dv))
        return [cast(output, query.dtype), cast(state, query.dtype if past is None else past.dtype)]

    operands = [query, key, value, past_state, decay if decays else None, beta if corrects else None]
    attributes = {
        "kv_num_heads": kv_num_heads, "q_num_heads": q_num_heads, "chunk_size": chunk_size, "scale": scale,
        "update_rule": update_rule,
    }  # fmt: skip
    return as_single_node("LinearAttention", 27, definition, operands, attributes)


def _check(query: Any, key: Any, value: Any, queries: int, keys: int) -> tuple[int, int]:
    """The number of features of a head, for keys and for values."""
    sizes = []
    for name, x, heads in (("query", query, queries), ("key", key, keys), ("value", value, keys)):
        if x.ndim != 3:
            raise ShapeError(f"{name} must have 3 dimensions, given {tuple(x.shape)}")
        features = x.shape[2]
        if not isinstance(features, int) or features % heads:
            raise ShapeError(f"{name}: {features} features can't be split into {heads} heads")
        sizes.append(features // heads)
        for axis, what in ((0, "batch size"), (1, "length")):
            pair = query.shape[axis], x.shape[axis]
            if all(isinstance(size, int) for size in pair) and pair[0] != pair[1]:
                raise ShapeError(f"needed one {what}, given {pair[0]} for query and {pair[1]} for {name}")
    if sizes[0] != sizes[1]:
        raise ShapeError(f"needed heads of queries and keys of one size, given {sizes[0]} and {sizes[1]}")
    return sizes[1], sizes[2]


def _check_gate(name: str, gate: Any, features: Sequence[int]) -> None:
    if gate is not None and (gate.ndim != 3 or gate.shape[2] not in features):
        raise ShapeError(
            f"{name} must be (batch, length, {' or '.join(map(str, features))}), given {tuple(gate.shape)}"
        )


def _steps(x: Any, batch: Any, length: Any, heads: int, dtype: Any) -> Any:
    """Reshape (batch, length, features) to (length, batch, heads, features of a head)."""
    split = shaping.reshape(cast(x, dtype), shape=(batch, length, heads, x.shape[2] // heads))
    return shaping.transpose(split, permutation=(1, 0, 2, 3))


@onnx("CausalConvWithState")
def causal_conv_with_state(
    context: Context, input: SymbolicTensor, weight: SymbolicTensor, bias: SymbolicTensor | None = None,
    past_state: SymbolicTensor | None = None, *,
    activation: str = "none",
) -> Any:  # fmt: skip
    """CausalConvWithState-27(input, weight, bias?, past_state?) -> output, present_state: depthwise"""
    if activation not in ("none", "silu", "swish"):
        raise ShapeError(f"activation must be none, silu or swish, given {activation!r}")
    for name, x, rank in (("input", input, 3), ("weight", weight, 3), ("bias", bias, 1), ("past_state", past_state, 3)):
        if x is not None and x.ndim != rank:
            raise ShapeError(f"{name} must have {rank} dimensions, given {tuple(x.shape)}")
    channels, inner, width = weight.shape
    if not all(isinstance(size, int) for size in weight.shape) or inner != 1 or width < 1:
        raise ShapeError(f"weight must be (channels, 1, width), given {tuple(weight.shape)}")
    for name, x in (("input", input), ("past_state", past_state)):
        if x is not None and isinstance(x.shape[1], int) and x.shape[1] != channels:
            raise ShapeError(f"{name} has {x.shape[1]} channels, the weight {channels}")

    def definition(input: Any, weight: Any, bias: Any, past: Any) -> list[Any]:
        x = align(input, (input.shape[0], channels, input.shape[2]))
        before = (x.shape[0], channels, width - 1)
        if past is None:
            past = x.builder.create(creation.full, shape=before, value=0.0, dtype=x.dtype)
        whole = slicing.concat(align(past, before), x, axis=2)
        y = convolution.conv(whole, weight, bias, stride=(1,), padding=((0, 0),), dilation=(1,), groups=channels)
        y = self_gated.silu(y) if activation != "none" else y
        return [align(y, tuple(x.shape)), part(whole, 2, x.shape[2], x.shape[2] + width - 1)]

    operands = [input, weight, bias, past_state]
    return as_single_node("CausalConvWithState", 27, definition, operands, {"activation": activation})
