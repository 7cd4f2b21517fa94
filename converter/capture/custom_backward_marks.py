"""Marks of a custom backward in an exported graph: the entry of its cotangents, and the use of its gradients."""

from __future__ import annotations

from collections.abc import Sequence

import torch

_LIBRARY = torch.library.Library("cellbridge", "FRAGMENT")  # type: ignore[no-untyped-call]
_LIBRARY.define("cotangent(Tensor x, int function) -> Tensor")  # type: ignore[no-untyped-call]
_LIBRARY.define(  # type: ignore[no-untyped-call]
    "own_gradient(Tensor[] outputs, Tensor[] operands, Tensor[] gradients, Tensor[] cotangents, int function)"
    " -> Tensor[]"
)


@torch.library.impl(_LIBRARY, "cotangent", "CompositeExplicitAutograd")
def _cotangent(x: torch.Tensor, function: int) -> torch.Tensor:
    return torch.ones_like(x)


@torch.library.register_fake("cellbridge::cotangent", lib=_LIBRARY)  # type: ignore[untyped-decorator]
def _cotangent_fake(x: torch.Tensor, function: int) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.impl(_LIBRARY, "own_gradient", "CompositeExplicitAutograd")
def _own_gradient(
    outputs: Sequence[torch.Tensor],
    operands: Sequence[torch.Tensor],
    gradients: Sequence[torch.Tensor],
    cotangents: Sequence[torch.Tensor],
    function: int,
) -> list[torch.Tensor]:
    return [x.clone() for x in outputs]


@torch.library.register_fake("cellbridge::own_gradient", lib=_LIBRARY)  # type: ignore[untyped-decorator]
def _own_gradient_fake(
    outputs: Sequence[torch.Tensor],
    operands: Sequence[torch.Tensor],
    gradients: Sequence[torch.Tensor],
    cotangents: Sequence[torch.Tensor],
    function: int,
) -> list[torch.Tensor]:
    return [torch.empty_like(x) for x in outputs]


COTANGENT = torch.ops.cellbridge.cotangent.default
OWN_GRADIENT = torch.ops.cellbridge.own_gradient.default
