"""Packed sequences (`torch.nn.utils.rnn`), whose sizes are values of tensors, in terms of padded ones.

A packed sequence has the rows of all sequences of a batch, sorted by length and without padding: first those of step 0,
then those of step 1. `batch_sizes` says how many sequences are left at each step. torch's recurrent layers take these
step by step; a program's take the padded sequence and the lengths.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_LIBRARY = torch.library.Library("cellbridge", "FRAGMENT")  # type: ignore[no-untyped-call]
_LIBRARY.define(  # type: ignore[no-untyped-call]
    "recurrent(Tensor x, Tensor lengths, Tensor[] hx, Tensor[] params, str kind, bool has_biases, int num_layers, "
    "float dropout, bool train, bool bidirectional) -> Tensor[]"
)


@torch.library.register_fake("cellbridge::recurrent", lib=_LIBRARY)  # type: ignore[untyped-decorator]
def _recurrent_fake(
    x: torch.Tensor,
    lengths: torch.Tensor,
    hx: list[torch.Tensor],
    params: list[torch.Tensor],
    kind: str,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
) -> list[torch.Tensor]:
    width = hx[0].shape[2] * (2 if bidirectional else 1)
    return [x.new_empty((x.shape[0], x.shape[1], width)), *(torch.empty_like(state) for state in hx)]


RECURRENT = torch.ops.cellbridge.recurrent.default
"""Stacked layers of a kind ("lstm", "gru", "rnn_tanh", "rnn_relu") on x (time, batch, features) with lengths (batch,).

It returns the outputs (time, batch, directions * outputs), and the last states, each as in `hx`. It isn't run: it is in
captured graphs alone.
"""
KINDS = ("lstm", "gru", "rnn_tanh", "rnn_relu")


class PackedSequences(TorchFunctionMode):
    """While a module is exported, packed sequences are computed by operators that it can take."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: dict[
            str, Any
        ] = {}  # the number of sequences by that of the steps, a symbol of each packed sequence

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        keywords = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "_pack_padded_sequence":
            return self._pack(*args, **keywords)
        if name == "_pad_packed_sequence":
            return self._pad(*args, **keywords)
        if name in KINDS and len(args) == 9 and isinstance(args[3], (list, tuple)):  # with batch_sizes
            return self._run(name, *args)
        if func is torch.Tensor.__getitem__ and isinstance(args[1], int) and args[1] == 0:
            batch = self.batches.get(str(args[0].shape))
            if batch is not None:  # a layer takes this number for a size
                return batch
        return func(*args, **keywords)

    def _pack(self, input: torch.Tensor, lengths: torch.Tensor, batch_first: bool) -> tuple[torch.Tensor, torch.Tensor]:
        x = input.transpose(0, 1) if batch_first else input
        steps: Any = lengths[0].item()  # the largest: they are sorted
        torch._check(steps >= 1)  # type: ignore[no-untyped-call]
        torch._check(steps <= x.shape[0])  # type: ignore[no-untyped-call]
        mask = _is_within(lengths, steps)
        batch_sizes = mask.sum(1)
        self.batches[str(batch_sizes.shape)] = x.shape[1]
        return x[:steps][mask], batch_sizes

    def _pad(
        self, data: torch.Tensor, batch_sizes: torch.Tensor, batch_first: bool, value: float, steps: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        lengths = self._lengths(batch_sizes)
        padded = _padded(data, _is_within(lengths, steps), value)
        return padded.transpose(0, 1) if batch_first else padded, lengths

    def _run(
        self,
        kind: str,
        data: torch.Tensor,
        batch_sizes: torch.Tensor,
        hx: Any,
        params: list[torch.Tensor],
        *settings: Any,
    ) -> tuple[torch.Tensor, ...]:
        lengths = self._lengths(batch_sizes)
        mask = _is_within(lengths, batch_sizes.shape[0])
        states = [hx] if isinstance(hx, torch.Tensor) else list(hx)
        y, *last = RECURRENT(_padded(data, mask, 0.0), lengths, states, list(params), kind, *settings)
        return y[mask], *last

    def _lengths(self, batch_sizes: torch.Tensor) -> torch.Tensor:
        """The lengths of the sequences (batch,), from the numbers of sequences that are left at each step (steps,)."""
        batch = self.batches.get(str(batch_sizes.shape))
        if batch is None:  # a packed sequence that is an input, or that forward itself has put together
            batch = batch_sizes[0].item()
        return (torch.arange(batch, device=batch_sizes.device)[None] < batch_sizes[:, None]).sum(0)


def _is_within(lengths: torch.Tensor, steps: int) -> torch.Tensor:
    """Whether a step is one of a sequence: (steps, batch)."""
    return torch.arange(steps, device=lengths.device)[:, None] < lengths[None]


def _padded(data: torch.Tensor, mask: torch.Tensor, value: float) -> torch.Tensor:
    """The rows of packed data at the places of a mask (steps, batch): (steps, batch, ...), with a value elsewhere."""
    shape = (*mask.shape, *data.shape[1:])
    rows = mask.reshape(*mask.shape, *(1,) * (data.ndim - 1)).expand(shape)
    return data.new_full(shape, value).masked_scatter(rows, data)
