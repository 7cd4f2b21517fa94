"""Guesses inputs that a network takes, from its first layers and the names of its parameters, and tries them."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ...runtime.errors import UsageError
from ..support.user_code import report_user_errors

BATCH, LENGTH, PADDED = 2, 8, 2
IMAGE_SIZES = (32, 64, 224)
MOST_TRIALS = 200
TOKEN_NAMES = re.compile(r"(^|_)(ids?|tokens?|idx|index|indices|labels?|words?)($|_)")
MASK_NAMES = re.compile(r"mask")


@dataclass(frozen=True)
class Draw:
    """A tensor to draw.

    Attributes:
        shape: its shape.
        high: one more than the largest of integers from 0; None for normal floating-point numbers.
        is_mask: whether it is a mask [2, length] that leaves out the last elements of the second row.
    """

    shape: tuple[int, ...]
    high: int | None = None
    is_mask: bool = False

    def tensor(self) -> torch.Tensor:
        """Draw it."""
        if self.is_mask:
            return (torch.arange(self.shape[1]) < torch.tensor([[self.shape[1]], [self.shape[1] - PADDED]])).float()
        return torch.randn(self.shape) if self.high is None else torch.randint(0, self.high, self.shape)

    def source(self) -> str:
        """Return the expression that draws it."""
        sizes = ", ".join(map(str, self.shape))
        if self.is_mask:
            length = self.shape[1]
            return f"(torch.arange({length}) < torch.tensor([[{length}], [{length - PADDED}]])).float()"
        return f"torch.randn({sizes})" if self.high is None else f"torch.randint(0, {self.high}, ({sizes}))"


def required_parameters(function: Callable[..., Any]) -> list[str]:
    """Return the names of a function's parameters without a default value."""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    kinds = (*positional, inspect.Parameter.KEYWORD_ONLY)
    return [p.name for p in parameters if p.default is inspect.Parameter.empty and p.kind in kinds]


def guess_inputs(network: nn.Module) -> list[Draw] | None:
    """Return inputs with which a network runs, in the order of its required parameters; None if none is found."""
    names = required_parameters(network.forward)
    was_training = network.training
    network.eval()
    state = torch.get_rng_state()
    try:
        choices = [list(dict.fromkeys(_draws(network, name))) for name in names]
        trials = itertools.islice(itertools.product(*choices), MOST_TRIALS)
        return next((list(draws) for draws in trials if _runs(network, draws)), None)
    finally:
        torch.set_rng_state(state)
        network.train(was_training)


def _runs(network: nn.Module, draws: tuple[Draw, ...]) -> bool:
    try:
        with torch.no_grad(), report_user_errors(type(network).__name__, "on guessed inputs"):
            network(*(draw.tensor() for draw in draws))
    except UsageError:  # it doesn't take these
        return False
    return True


def _draws(network: nn.Module, name: str) -> Iterator[Draw]:
    """Yield what a parameter of this name may be, the likeliest first."""
    of_layers = [draw for module in network.modules() for draw in _of_layer(module)]
    if MASK_NAMES.search(name):
        yield Draw((BATCH, LENGTH), is_mask=True)
    tokens = [draw for draw in of_layers if draw.high is not None]
    numbers = [draw for draw in of_layers if draw.high is None]
    yield from (*tokens, *numbers) if TOKEN_NAMES.search(name) else of_layers
    yield from (Draw((BATCH, 3, size, size)) for size in IMAGE_SIZES)
    yield from (Draw((BATCH, LENGTH)), Draw((BATCH,)), Draw((BATCH, LENGTH, LENGTH)))


def _of_layer(module: nn.Module) -> Iterator[Draw]:
    """Yield what a layer of torch takes."""
    match module:
        case nn.Embedding() | nn.EmbeddingBag():
            yield Draw((BATCH, LENGTH), high=module.num_embeddings)
            yield Draw((BATCH,), high=module.num_embeddings)
        case nn.Conv1d():
            yield from (Draw((BATCH, module.in_channels, size)) for size in (64, 1024))
        case nn.Conv2d():
            yield from (Draw((BATCH, module.in_channels, size, size)) for size in (*IMAGE_SIZES, 28))
        case nn.Conv3d():
            yield from (Draw((BATCH, module.in_channels, 8, size, size)) for size in (16, 64))
        case nn.RNNBase():
            yield Draw((BATCH, LENGTH, module.input_size))
        case nn.Linear():
            yield Draw((BATCH, module.in_features))
            yield Draw((BATCH, LENGTH, module.in_features))
        case nn.TransformerEncoderLayer() | nn.TransformerDecoderLayer():
            yield Draw((BATCH, LENGTH, module.self_attn.embed_dim))
        case nn.MultiheadAttention():
            yield Draw((BATCH, LENGTH, module.embed_dim))
