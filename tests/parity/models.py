"""Small models as people write them, each of a kind that parity once judged or captured wrongly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Made = tuple[nn.Module, tuple[Any, ...]]

X = torch.linspace(-2.0, 2.0, 24).reshape(4, 6).sin()
SEQUENCE = torch.linspace(-3.0, 3.0, 2 * 4 * 8).reshape(2, 4, 8).cos()


class SharedThreeWays(nn.Module):
    """One Linear under two names and in a list, its weight tied to another's and used by the parent's own code."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(6, 6)
        self.b = self.a
        self.norm = nn.BatchNorm1d(6)
        self.list = nn.ModuleList([self.a, nn.ReLU()])
        self.c = nn.Linear(6, 6)
        self.c.weight = self.a.weight

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.b(self.norm(self.a(x))))
        for layer in self.list:
            x = layer(x)
        return self.c(x) + F.linear(x, self.a.weight)


class FrozenFeatures(nn.Module):
    """The head is trained on features that are computed under `no_grad`."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.ReLU())
        self.head = nn.Linear(6, 2)

    @torch.no_grad()
    def features(self, x: Tensor) -> Tensor:
        return self.encoder(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))


class LowestMask(nn.Module):
    """Attention with a mask of the lowest number of the dtype, which goes through a Cell."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(8, 8)
        self.bias = nn.Identity()

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        bias = self.bias((1.0 - mask) * torch.finfo(x.dtype).min)
        return (x @ self.query(x).mT + bias[:, None]).softmax(-1) @ x


class OwnRmsNorm(nn.Module):
    """Divides by the root mean square plus the eps of the dtype."""

    def forward(self, x: Tensor) -> Tensor:
        return x / (x.pow(2).mean(-1, keepdim=True).sqrt() + torch.finfo(x.dtype).eps)


class MaskedEncoder(nn.Module):
    """torch's encoder layers with a causal mask that isn't announced as one."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.encoder(x, mask=nn.Transformer.generate_square_subsequent_mask(x.size(1), dtype=x.dtype))


class MaskedDecoder(nn.Module):
    """torch's decoder layers with a mask that is not causal: it must be applied as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, 0.0, batch_first=True), 1)

    def forward(self, x: Tensor) -> Tensor:
        mask = torch.zeros(4, 4, dtype=x.dtype).masked_fill(torch.eye(4).roll(1, 0) > 0, float("-inf"))
        return self.decoder(x, x.flip(1), tgt_mask=mask)


@dataclass
class Scores:
    """What a classifier returns."""

    logits: Tensor
    features: Any = None


class ReturnsDataclasses(nn.Module):
    """The result is a dataclass of tensors, with another in it; so is what its Cell returns."""

    class Head(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(6, 3)

        def forward(self, x: Tensor) -> Scores:
            return Scores(self.linear(x))

    def __init__(self) -> None:
        super().__init__()
        self.head = self.Head()

    def forward(self, x: Tensor) -> Scores:
        scores = self.head(x)
        return Scores(scores.logits.softmax(-1), scores)


class MaskWhenTraced(nn.Module):
    """Like transformers, leaves a mask out that masks nothing, unless the model is being traced."""

    class Attend(nn.Module):
        def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
            return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)

    def __init__(self) -> None:
        super().__init__()
        self.value = nn.Linear(8, 8)
        self.attend = self.Attend()

    def forward(self, x: Tensor) -> Tensor:
        mask = torch.ones(4, 4, dtype=torch.bool) if torch.compiler.is_exporting() else None
        return self.attend(self.value(x), mask)


class OneKey(nn.Module):
    """Attention of every sequence to itself, with learned biases; of one element, its weight is 1, its gradient 0."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 32)
        self.bias = nn.Parameter(torch.randn(1, 4, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (cell(x).unflatten(-1, (4, 8)).transpose(1, 2) for cell in (self.query, self.key, self.value))
        dropout = 0.5 if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.bias, dropout_p=dropout, scale=1.0)
        return y.transpose(1, 2).flatten(2)


class Constants(nn.Module):
    """Makes tensors of torch's default dtype and of Python numbers, and multiplies by them."""

    def forward(self, x: Tensor) -> Tensor:
        return x @ torch.eye(6) * torch.tensor(0.1) + torch.linspace(0, 1, 6)


def spectral(features: int) -> nn.Module:
    """A Linear with spectral normalization: with one feature, its vector `u` is 1 or -1 and stays so."""
    return nn.utils.parametrizations.spectral_norm(nn.Linear(6, features))


def orthogonal() -> nn.Module:
    """A Linear whose weight is made by what ONNX lacks."""
    return nn.utils.parametrizations.orthogonal(nn.Linear(6, 6))


def frozen(module: nn.Module) -> nn.Module:
    """The module without trainable parameters."""
    return module.requires_grad_(False)


MODELS: dict[str, Callable[[], Made]] = {
    "shared three ways": lambda: (SharedThreeWays(), (X,)),
    "frozen features": lambda: (FrozenFeatures(), (X,)),
    "lowest mask": lambda: (LowestMask(), (SEQUENCE, torch.tensor([[1.0, 1, 1, 0], [1, 1, 0, 0]]))),
    "RMS norm without eps": lambda: (nn.Sequential(nn.Linear(6, 8), nn.RMSNorm(8)), (X,)),
    "RMS norm of small numbers": lambda: (nn.RMSNorm(6), (X * 1e-3,)),
    "own RMS norm": lambda: (OwnRmsNorm(), (X,)),
    "constants": lambda: (Constants(), (X,)),
    "encoder with mask": lambda: (MaskedEncoder(), (SEQUENCE,)),
    "decoder with mask": lambda: (MaskedDecoder(), (SEQUENCE,)),
    "attention to one key": lambda: (OneKey(), (torch.randn(40, 1, 32),)),
    "dataclasses": lambda: (ReturnsDataclasses(), (X,)),
    "mask when traced": lambda: (MaskWhenTraced(), (SEQUENCE,)),
    "spectral norm": lambda: (spectral(5), (X,)),
    "spectral norm, one feature": lambda: (spectral(1), (X,)),
    "orthogonal": lambda: (orthogonal(), (X,)),
    "dropout alone": lambda: (nn.Sequential(nn.Dropout(0.3), nn.Identity()), (X,)),
    "frozen batch norm": lambda: (frozen(nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4))), (X,)),
}


WRONG_BACKWARD = """

class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, gradient):
        return 3 * gradient
"""
"""Source of a function whose backward pass isn't the derivative of its forward pass, for a model file."""
