"""The rule of each op: from the bounds of its operands, and what it rounds itself, to the bounds of its outputs.

Where nothing is known of an op, nothing is known of what is computed from its outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ....runtime.ops.registry import Op, ops_with
from ...sides.records import Array
from . import factorizations, normalizations, recurrent, sums, transforms
from .estimates import Application, bound_of, together

Rule = Callable[[Application], tuple[Array | None, ...] | None]
"""Returns a bound for each output, None for one that isn't floating-point; or None altogether if nothing is known."""


def elementwise(a: Application) -> tuple[Array, ...]:
    """Vary one operand after another by its bound, which covers kinks and steps too."""
    values = [None if x is None else x.value for x in a.operands]
    scales = [np.maximum(np.abs(y), _cancelled(a.op, a.first.value)) for y in a.outputs]
    bounds = [normalizations.FUNCTION_UNITS * a.units.results * scale for scale in scales]
    for position, x in enumerate(a.operands):
        if x is None or x.bound is None or not x.bound.any():
            continue
        ends = [a(*values[:position], end, *values[position + 1 :]) for end in (x.value + x.bound, x.value - x.bound)]
        for number, (y, above, below) in enumerate(zip(a.outputs, *ends, strict=True)):
            off = np.fmax(np.abs(above - y), np.abs(below - y))
            if a.op.traits.pole:  # a bound that reaches beyond the end of the domain crosses it
                off = np.where((np.isnan(above) | np.isnan(below)) & ~np.isnan(y), np.inf, off)
            bounds[number] = together(bounds[number], off)
    return tuple(bounds)


def _cancelled(op: Op, x: Array) -> Array | float:
    """Return what common implementations of a function take apart to get a small result; 0 for other functions.

    ONNX Runtime computes sigmoid as 1/2 and a rational function, and silu from it, so that they have no more digits for
    negative numbers than near their size at 1/2; every framework computes GELU by `x / 2 * (1 + erf(x / sqrt(2)))`.
    """
    if op.name == "sigmoid":
        return 0.5
    return np.abs(x) / 2 if op.traits.smooth_gate else 0.0


def moved(a: Application) -> tuple[Array, ...]:
    """Move bounds as the op moves values."""
    if "value" in a.attributes:  # of a padding
        a = replace(a, attributes=a.attributes | {"value": 0.0})
    return a.map(bound_of)


def cast(a: Application) -> tuple[Array | None, ...] | None:
    """An integer may have more digits than the working dtype; a value that the truth rounds too has no bound."""
    if a.outputs[0].dtype != np.float64:
        return None
    return a.map(bound_of) if a.first.bound is not None else (a.units.rounded(a.outputs[0]).bound,)


def passed_on(a: Application) -> tuple[Array | None, ...]:
    """The op returns its first operands."""
    return tuple(None if x is None else x.bound for x in a.operands[: len(a.outputs)])


def extremum(a: Application) -> tuple[Array, ...]:
    """No extremum moves further than the element that moves furthest."""
    return (bound_of(a.first).max(axis=a.attributes["axes"], keepdims=a.attributes["keepdims"]),)


def extremum_in_window(a: Application) -> tuple[Array | None, ...]:
    """As `extremum`, for each window; the indices come second."""
    return a(bound_of(a.first))[0], None


def order_statistics(a: Application) -> tuple[Array | None, ...]:
    """As `extremum`, for each number in sorted order; the indices come second."""
    largest = bound_of(a.first).max(axis=a.attributes["axis"], keepdims=True, initial=0.0)
    return np.broadcast_to(largest, a.outputs[0].shape), None


RULES: dict[str, Rule] = {
    **dict.fromkeys(ops_with(lambda of: of.elementwise and not of.by_series), elementwise),
    **dict.fromkeys(ops_with(lambda of: of.moves), moved),
    **dict.fromkeys(("index_add", "max_pool_gradient", "scatter", "scatter_nd"), sums.summed),
    **dict.fromkeys(("adaptive_avg_pool", "avg_pool"), sums.averaged),
    **dict.fromkeys(("reduce_mean", "reduce_sum"), sums.reduced),
    "cumsum": sums.cumulated,
    **dict.fromkeys(
        ("adaptive_avg_pool_gradient", "avg_pool_gradient", "resize", "resize_gradient"), sums.interpolated
    ),
    **dict.fromkeys(ops_with(lambda of: of.products), sums.bilinear),
    "own_gradient": passed_on,
    **dict.fromkeys(("reduce_max", "reduce_min"), extremum),
    **dict.fromkeys(("adaptive_max_pool", "max_pool"), extremum_in_window),
    **dict.fromkeys(("sort", "topk"), order_statistics),
    **dict.fromkeys(("layer_norm", "layer_norm_with_statistics", "standardize"), normalizations.layer_norm),
    **dict.fromkeys(("rms_norm", "rms_norm_with_statistics"), normalizations.rms_norm),
    **dict.fromkeys(("group_norm", "group_norm_with_statistics"), normalizations.group_norm),
    "batch_norm": normalizations.batch_norm,
    "batch_norm_train": normalizations.batch_norm_train,
    "cast": cast,
    "log_softmax": normalizations.log_softmax,
    "logsumexp": normalizations.logsumexp,
    "softmax": normalizations.softmax,
    "variance": normalizations.variance,
    **dict.fromkeys(
        ("attention_weights", "attention_with_weights", "scaled_dot_product_attention"), normalizations.attention
    ),
    "rnn": recurrent.rnn,
    **dict.fromkeys(("gru", "gru_with_gates"), recurrent.gru),
    **dict.fromkeys(("lstm", "lstm_with_gates"), recurrent.lstm),
    "gru_gradient": recurrent.gru_gradient,
    "lstm_gradient": recurrent.lstm_gradient,
    "rnn_gradient": recurrent.rnn_gradient,
    "cholesky": factorizations.cholesky,
    "determinant": factorizations.determinant,
    "dft": transforms.dft,
    "eigh": factorizations.eigh,
    "inverse": transforms.inverse,
    "log_determinant": factorizations.log_determinant,
    "solve": transforms.solve,
    "solve_triangular": transforms.solve_triangular,
}
"""The rules by the names of ops."""
