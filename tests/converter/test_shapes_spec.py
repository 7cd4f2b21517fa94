"""`ShapesSpec` and `ParamsSpec` of torch 2.14 and newer say which sizes may vary, as `dynamic_shapes` do."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.converter import from_torch
from cellbridge.converter.torch_version import has_change
from cellbridge.parity.inputs.sizes import other_sizes
from cellbridge.runtime.errors import UsageError

needs_specs = pytest.mark.skipif(not has_change("ShapesSpec"), reason="torch has ShapesSpec since 2.14")
ARGS = torch.linspace(-1, 1, 12).reshape(4, 3), torch.linspace(0, 1, 24).reshape(8, 3)


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(3, 4)

    def forward(self, x: Tensor, y: Tensor) -> Any:
        return self.linear(x).softmax(-1), (y * 2).reshape(y.shape[0] // 2, 2, -1)


def specs() -> Any:
    return importlib.import_module("torch.fx.experimental.dynamic_spec")


def params(batch: Any) -> Any:
    s = specs()
    return s.ParamsSpec({"x": s.TensorSpec([batch, s.STATIC]), "y": s.TensorSpec([batch * 2, 3])})


@needs_specs
def test_sizes_have_the_names_of_the_variables_and_expressions_of_them() -> None:
    program = from_torch(Network(), ARGS, dynamic_shapes=params(specs().ShapeVar("batch")))
    assert [str(value.type) for value in program.inputs] == ["float32[batch, 3]", "float32[2*batch, 3]"]
    outputs = program(np.ones((7, 3), np.float32), np.ones((14, 3), np.float32))
    assert [output.shape for output in outputs] == [(7, 4), (7, 2, 3)]


@needs_specs
def test_other_sizes_are_those_that_the_spec_assumes() -> None:
    batch = specs().ShapeVar("batch", min=2, max=64)
    spec = specs().ShapesSpec(params(batch), assumptions=[batch % 4 == 0])
    program = from_torch(Network(), ARGS, dynamic_shapes=spec)
    sizes = [s["batch"] for s in other_sizes(program, ARGS, spec)]
    assert sizes
    assert all(size % 4 == 0 and 2 <= size <= 64 for size in sizes)
    assert parity.check(Network(), ARGS, dynamic_shapes=spec).ok


@needs_specs
def test_a_spec_attached_to_forward_is_taken() -> None:
    class Decorated(Network):
        pass

    Decorated.forward = specs().dynamic_spec(params(specs().ShapeVar("batch")))(  # type: ignore[method-assign]
        lambda self, x, y: Network.forward(self, x, y)
    )
    program = from_torch(Decorated(), ARGS)
    assert str(program.inputs[0].type) == "float32[batch, 3]"
    with pytest.raises(UsageError, match="leave out one of the two"):
        from_torch(Decorated(), ARGS, dynamic_shapes=({0: "n"}, None))


@needs_specs
@pytest.mark.parametrize(
    ("entries", "message"), [({"z": 1}, "z"), ({"x": 2}, "ShapesSpec|spec"), ({"x": [2, 3, 4]}, "has 3 sizes")]
)
def test_a_spec_that_does_not_fit_is_refused(entries: dict[str, Any], message: str) -> None:
    s = specs()
    made = {name: s.TensorSpec(value) if isinstance(value, list) else value for name, value in entries.items()}
    with pytest.raises(UsageError, match=message):
        from_torch(Network(), ARGS, dynamic_shapes=s.ParamsSpec(made))


def test_what_is_no_dynamic_shapes_is_refused_with_what_is() -> None:
    class ShapesSpec:
        """As on a torch that has none."""

    with pytest.raises(UsageError, match=r"ShapesSpec of torch 2\.14 or newer"):
        from_torch(Network(), ARGS, dynamic_shapes=ShapesSpec())
