"""`dynamic_shapes` as people write it: names, partial dicts, examples of one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from cellbridge import parity
from cellbridge.converter import from_torch
from cellbridge.runtime.errors import CellbridgeError, ConversionError
from cellbridge.runtime.ir.dims import SymbolicDim


class Masked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x: Tensor, mask: Tensor | None = None, *, scale: Tensor | None = None) -> Tensor:
        y = self.fc(x)
        y = y if mask is None else y * mask
        return y if scale is None else y * scale


X, MASK = torch.randn(3, 4), torch.rand(3, 1)


@pytest.mark.parametrize(
    ("kwargs", "dynamic_shapes"),
    [
        ({}, ({0: "batch"},)),
        ({}, (["batch", None],)),
        ({}, {"x": {0: "batch"}}),
        ({}, {"x": {0: Dim("batch")}}),
        ({}, ({0: Dim.DYNAMIC},)),
        ({}, ({0: Dim.AUTO},)),
        ({"mask": MASK}, {"x": {0: "batch"}, "mask": {0: "batch"}}),
        ({"mask": MASK}, ({0: "batch"}, {0: "batch"})),
        ({"mask": MASK, "scale": torch.rand(3, 1)}, {name: {0: "batch"} for name in ("x", "mask", "scale")}),
        ({"mask": torch.rand(1)}, {"x": {0: "batch"}}),  # what is left out is fixed
        ({"scale": torch.rand(1)}, {"x": {0: "batch"}}),
    ],
)
@pytest.mark.parametrize("batch", [3, 1])
@pytest.mark.every(4)
def test_the_batch_varies_whatever_the_example_has(kwargs: dict[str, Tensor], dynamic_shapes: Any, batch: int) -> None:
    if batch == 1 and Dim.AUTO in (spec.get(0) for spec in dynamic_shapes if isinstance(spec, dict)):
        pytest.skip("AUTO is for torch to decide: a size of 1 is fixed")
    fixed = {name for name in kwargs if isinstance(dynamic_shapes, dict) and name not in dynamic_shapes}
    given = {name: x if name in fixed else x[:batch] for name, x in kwargs.items()}
    module = Masked()
    program = from_torch(module, (X[:batch],), given, dynamic_shapes=dynamic_shapes)
    assert isinstance(program.inputs[0].shape[0], SymbolicDim)
    doubled = {name: x if name in fixed else torch.cat([x, x]) for name, x in kwargs.items()}
    x = torch.cat([X, X])
    np.testing.assert_allclose(program(x, **doubled), module(x, **doubled).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_one_sample_with_a_dynamic_batch_is_compared() -> None:
    report = parity.check(Masked(), (X[:1],), dynamic_shapes=({0: "batch"},))
    assert report.ok, str(report)
    assert report.sizes


def test_a_model_for_one_sample_alone_is_refused() -> None:
    class One(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.reshape(4)

    with pytest.raises(CellbridgeError, match="were given size 2"):
        from_torch(One(), (X[:1],), dynamic_shapes=({0: "batch"},))


# ---- what else is said of a model ----


def test_a_half_model_that_is_written_in_float32_is_told() -> None:
    report = parity.check(Masked().half(), (X.half(),))
    assert report.ok, str(report)
    (note,) = [note for note in report.notes if "float16" in note]
    assert "written to ONNX, in float32" in note
    assert not any("float16;" in note for note in parity.check(Masked(), (X,)).notes)
    assert not any("in float32:" in note for note in parity.check(Masked().half(), (X.half(),), dtype="float16").notes)


@pytest.mark.parametrize(
    "repeat",
    [
        lambda k: k.repeat_interleave(2, 1),
        lambda k: k[:, :, None].expand(-1, -1, 2, -1, -1).reshape(2, 4, k.shape[2], 4),  # as in transformers
        lambda k: torch.stack([k, k], 2).flatten(1, 2),
    ],
    ids=["repeat_interleave", "expand", "stack"],
)
@pytest.mark.every(2)
def test_a_growing_cache_of_grouped_heads_may_have_any_length(repeat: Any) -> None:
    class Cached(nn.Module):
        def forward(self, x: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
            return repeat(torch.cat([cache, x], 2))

    example = torch.randn(2, 2, 1, 4), torch.randn(2, 2, 6, 4)
    program = from_torch(Cached(), example, dynamic_shapes={"x": None, "cache": {2: "past"}})
    for past in (2, 3, 9):
        x, cache = torch.randn(2, 2, 1, 4), torch.randn(2, 2, past, 4)
        np.testing.assert_array_equal(program(x.numpy(), cache.numpy()), Cached()(x, cache).numpy())


def test_lengths_that_another_branch_is_for_are_still_refused() -> None:
    class Branch(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if min(x.shape[1], 4) == 4 else x

    with pytest.raises(ConversionError, match="Constraints violated"):
        from_torch(Branch(), (torch.randn(2, 6),), dynamic_shapes={"x": {1: "length"}})
