"""Operators for which torch computes only the shapes of the results while it traces."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

_ATEN = torch.ops.aten
_KEYS = (torch._C.DispatchKey.CompositeImplicitAutograd, torch._C.DispatchKey.Autograd)


@contextlib.contextmanager
def trace_by_shape() -> Iterator[None]:
    """Within the context, these operators are traced as single nodes, from the shapes of their results.

    torch would unroll recurrent layers, which fixes the number of steps to that of the example inputs. It doesn't know
    the shapes inside connectionist temporal classification, where lengths are tensors, or the result shapes of least
    squares, one of which depends on the ranks of the matrices.
    """
    originals = {operator: dict(operator.py_kernels) for operator in RESULTS}
    try:
        for operator, results in RESULTS.items():
            operator.py_kernels.update(dict.fromkeys(_KEYS, results))
            operator._dispatch_cache.clear()
        yield
    finally:
        for operator, kernels in originals.items():
            operator.py_kernels.clear()
            operator.py_kernels.update(kernels)
            operator._dispatch_cache.clear()


def _recurrent_results(input: Tensor, hx: Tensor | list[Tensor], *settings: Any) -> tuple[Tensor, ...]:
    """All outputs, (time, batch, directions * hidden) or batch first, and the last states, of the shapes of `hx`."""
    states = [hx] if isinstance(hx, Tensor) else hx
    bidirectional = settings[-2]
    outputs = input.new_empty(*input.shape[:2], states[0].shape[2] * (2 if bidirectional else 1))
    return outputs, *(torch.empty_like(state) for state in states)


def _ctc_loss_results(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: int = 1,
    zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """The loss, or one per sequence, for log-probabilities (time, batch, classes) or (time, classes)."""
    return log_probs.new_empty(() if reduction else log_probs.shape[1:-1])


def _lstsq_results(
    self: Tensor, b: Tensor, rcond: float | None = None, *, driver: str | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The solution (..., n) or (..., n, k), residuals, ranks and singular values, as far as the driver returns them.

    The residuals of "gelsd" and "gelss" exist if each matrix has full rank, which isn't known here; it is assumed.
    """
    *matrices, m, n = self.shape
    is_vector = b.ndim == 1 or (b.ndim == self.ndim - 1 and b.shape == self.shape[:-1])
    columns = [1] if is_vector else [b.shape[-1]]
    batch = matrices if is_vector else list((self[..., 0, 0] + b[..., 0, 0]).shape)
    by_values = driver in ("gelsd", "gelss")
    real = self.real.dtype if self.is_complex() else self.dtype
    residuals = [*batch, *columns] if (by_values or driver == "gels") and m > n else [0]
    return (
        self.new_empty([*batch, n] if is_vector else [*batch, n, *columns]),
        self.new_empty(residuals, dtype=real),
        self.new_empty([0] if driver == "gels" else matrices, dtype=torch.int64),
        self.new_empty([*matrices, min(m, n)] if by_values else [0], dtype=real),
    )


RESULTS: dict[Any, Callable[..., Any]] = {
    **dict.fromkeys(
        (_ATEN.lstm.input, _ATEN.gru.input, _ATEN.rnn_tanh.input, _ATEN.rnn_relu.input), _recurrent_results
    ),
    _ATEN.linalg_lstsq.default: _lstsq_results,
    **dict.fromkeys((_ATEN.ctc_loss.IntList, _ATEN.ctc_loss.Tensor), _ctc_loss_results),
}
"""Shape functions by operator. Each needs a translation, or its empty tensors would become the results."""
