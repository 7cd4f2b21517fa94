"""Clamps whose bounds the given inputs don't reach, so that values before and after them are equal."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
import torch
from onnx import numpy_helper
from torch import Tensor, nn

from cellbridge import converter, parity

BOUND, OTHER = 6.0, 7.0


class Clamp(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.clamp(-BOUND, BOUND)


class Network(nn.Module):
    """A clamp: a Cell between two others, or beside a residual, or a call in the network's own `forward`."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.first = nn.Linear(4, 8)
        self.drop = nn.Dropout(0.1)
        self.clamp = Clamp()
        self.last = nn.Linear(8, 3)
        self.norm = nn.LayerNorm(3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        if self.kind == "call":
            x = self.drop(x).clamp(-BOUND, BOUND)
        else:
            x = self.clamp(x) + x if self.kind == "residual" else self.clamp(x)
        result: Tensor = self.norm(self.last(x))
        return result


@pytest.mark.causes
@pytest.mark.parametrize("has_names", [True, False])
@pytest.mark.parametrize(("kind", "cell"), [("Cell", "clamp"), ("residual", "clamp"), ("call", "")])
@pytest.mark.every(6)
def test_a_wrong_bound_is_found_in_its_cell(kind: str, cell: str, has_names: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    network, x = Network(kind).eval(), torch.randn(5, 4)
    model = converter.to_onnx(converter.from_torch(network, (x,)))
    bound = next(
        initializer for initializer in model.graph.initializer if numpy_helper.to_array(initializer).tolist() == BOUND
    )
    bound.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(bound) * 0 + OTHER, bound.name))
    for number, node in enumerate(model.graph.node if not has_names else ()):
        node.name = f"n{number}"
        del node.metadata_props[:]
    onnx.save(model, tmp_path / "wrong.onnx")
    assert parity.compare(network, str(tmp_path / "wrong.onnx"), (x,), probe=False).ok
    report = parity.compare(network, str(tmp_path / "wrong.onnx"), (x,), probe=True)
    assert report.failing == [cell]
    (cause,) = report.cells[cell].causes
    assert (cause.attribute, cause.reference_value, cause.candidate_value) == ("maximum", BOUND, OTHER)
