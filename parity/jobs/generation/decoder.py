"""`Decoder`: a network that continues a sequence, called on the whole of it or step by step with a state."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ....converter.dtypes import is_inexact, torch_dtype
from ....converter.seed import manual_seed
from ....runtime.errors import UsageError
from ....runtime.ir.types import as_dtype
from ...sides.precision import DoublePrecision, convert, in_dtype
from ...support.user_code import report_user_errors

State = Any
"""What a network keeps of a sequence: a cache of keys and values, hidden states; tensors in any structure."""

Decode = Callable[..., tuple[torch.Tensor, State]]
"""`decode(module, tokens, state)`, or with `mask`, returns the outputs for the new tokens and the new state."""

CACHE, MASK = "past_key_values", "attention_mask"


@dataclass
class Decoder:
    """A network that continues a sequence.

    Args:
        module: the network: `module(tokens)` returns outputs for each position, a tensor or an object with `logits`.
        decode: `decode(module, tokens, state)` or `decode(module, tokens, state, mask)`, which returns the outputs for
            the new tokens and the new state; the state is None at the start, and the mask [batch, length so far] is 0
            where there is padding. None for modules in the manner of transformers, with `past_key_values`.
        label: name of the model file, for messages.
        seed: seed of torch's random numbers.

    Raises:
        UsageError: the network has no way to decode step by step.
    """

    module: torch.nn.Module
    decode: Decode | None
    label: str
    seed: int = 0

    def __post_init__(self) -> None:
        self.takes = _parameters(self.module.forward)
        if self.decode is None and CACHE not in self.takes:
            raise UsageError(
                f"{self.label}: it isn't known how the model continues a sequence: its forward has no {CACHE}, as "
                "models of transformers have\n  what to do: define decode(module, tokens, state), which returns the "
                "outputs for the new tokens and the new state; the state is None at the start"
            )

    @property
    def takes_mask(self) -> bool:
        """Whether it can be told where there is padding."""
        return "mask" in _parameters(self.decode) if self.decode is not None else MASK in self.takes

    @contextmanager
    def running(self, dtype: str, working: str) -> Iterator[None]:
        """Within the context, the network is in eval mode and in a dtype, and computes no gradients."""
        with ExitStack() as stack:
            through, run_dtype = torch_dtype(as_dtype(working)), torch_dtype(as_dtype(dtype))
            manual_seed(self.seed)
            kept = stack.enter_context(in_dtype(self.module, run_dtype, through=through, train=False))
            if dtype == "float64":
                stack.enter_context(DoublePrecision(through, kept))
            stack.enter_context(torch.no_grad())
            yield

    def whole(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the outputs for all positions, from one call without a state."""
        with report_user_errors(self.label, "when the model was called on the whole sequence"):
            result = self.module(tokens, **({"use_cache": False} if "use_cache" in self.takes else {}))
        return self._outputs(result)

    def step(self, tokens: torch.Tensor, state: State, mask: torch.Tensor | None) -> tuple[torch.Tensor, State]:
        """Return the outputs for new tokens, and the new state."""
        if self.decode is not None:
            with report_user_errors(self.label, "when decode() was called"):
                result = self.decode(self.module, tokens, state, *([] if mask is None else [mask]))
            if not isinstance(result, tuple) or len(result) != 2:
                raise UsageError(f"{self.label}: decode() must return the outputs and the new state, as a tuple of two")
            return self._outputs(result[0]), result[1]
        more: dict[str, Any] = {CACHE: state}
        if "use_cache" in self.takes:
            more["use_cache"] = True
        if mask is not None:
            more[MASK] = mask
            if "position_ids" in self.takes:  # as `generate` of transformers computes them
                more["position_ids"] = (mask.cumsum(1) - 1).clamp(min=0)[:, -tokens.shape[1] :]
        with report_user_errors(self.label, "when the model was called with its cache"):
            result = self.module(tokens, **more)
        return self._outputs(result), result.past_key_values

    def _outputs(self, result: Any) -> torch.Tensor:
        """Return the tensor of outputs in what a call returned."""
        logits = result if isinstance(result, torch.Tensor) else getattr(result, "logits", None)
        if logits is None:
            leaves = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
            logits = leaves[0] if leaves else None
        if logits is None or logits.ndim < 2:
            raise UsageError(f"{self.label}: the model must return outputs for each position, [batch, length, ...]")
        return logits


def in_chunks(
    decoder: Decoder, tokens: torch.Tensor, sizes: Sequence[int], mask: torch.Tensor | None = None
) -> tuple[torch.Tensor, State]:
    """Return the outputs for all positions and the last state, from one call for each chunk of the sequence.

    Args:
        decoder: the network.
        tokens: the sequences, [batch, length, ...].
        sizes: lengths of the chunks.
        mask: [batch, length], 0 where there is padding; None if there is none.
    """
    state: State = None
    outputs = []
    start = 0
    for size in sizes:
        end = start + size
        part, state = decoder.step(tokens[:, start:end], state, None if mask is None else mask[:, :end])
        outputs.append(part.detach().clone())
        start = end
    return torch.cat(outputs, 1), state


def greedy(decoder: Decoder, prompt: torch.Tensor, count: int) -> torch.Tensor:
    """Return sequences that begin with a prompt, [batch, length], each continued by the likeliest tokens."""
    tokens, state, new = prompt, None, prompt
    for _ in range(count):
        logits, state = decoder.step(new, state, None)
        new = logits[:, -1:].argmax(-1)
        tokens = torch.cat([tokens, new.to(tokens.dtype)], 1)
    return tokens


def cast(tokens: torch.Tensor, dtype: str, working: str) -> torch.Tensor:
    """Return a sequence of numbers in a dtype, rounded to the working dtype first; tokens as they are."""
    if not is_inexact(tokens):
        return tokens
    with torch._C.DisableTorchFunction():  # a float64 run would neither round nor take float64 for the working dtype
        return convert(convert(tokens, torch_dtype(as_dtype(working))), torch_dtype(as_dtype(dtype)))


def _parameters(function: Any) -> set[str]:
    try:
        return set(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return set()
