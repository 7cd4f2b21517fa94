"""Marks of the model's own calls of `as_strided_scatter`; torch.export inserts others for in-place changes.

Their gradients differ: for a call, torch passes the destination the cotangent where it is overwritten and 0 elsewhere;
for an in-place change of a view it is the other way round.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

_LIBRARY = torch.library.Library("cellbridge", "FRAGMENT")  # type: ignore[no-untyped-call]
_LIBRARY.define(  # type: ignore[no-untyped-call]
    "as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor"
)


@torch.library.impl(_LIBRARY, "as_strided_scatter", "CompositeExplicitAutograd")
def _scatter(
    x: torch.Tensor, src: torch.Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> torch.Tensor:
    return torch.as_strided_scatter(x, src, size, stride, storage_offset)


@torch.library.register_fake("cellbridge::as_strided_scatter", lib=_LIBRARY)  # type: ignore[untyped-decorator]
def _scatter_fake(
    x: torch.Tensor, src: torch.Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> torch.Tensor:
    return torch.empty_like(x)


EXPLICIT = torch.ops.cellbridge.as_strided_scatter.default
IN_PLACE = torch.ops.aten.as_strided_scatter.default
