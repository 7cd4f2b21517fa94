"""Winograd's convolution: the same numbers as the kernels', as exact as a direct one, and only where it pays."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from cellbridge.runtime.compiled.executable import lower_values
from cellbridge.runtime.compiled.session import Session
from cellbridge.runtime.ir.dims import symbol
from cellbridge.runtime.ir.program import Program
from cellbridge.runtime.lowering.writing import add_initializers
from cellbridge.runtime.ops import convolution
from tests.runtime.building import build

MODULE = sys.modules["cellbridge.runtime.lowering.passes.winograd"]
PLAIN: dict[str, Any] = {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1}
SMALL = ((64, 256, 4, 4), (256, 256, 3, 3))  # images and weight for which it pays


def operators(program: Program) -> set[str]:
    return {node.op_type for node in lower_values(program, program.outputs, ()).graph.nodes}


def run(program: Program, *arrays: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    lowering = lower_values(program, program.outputs, ())
    model = lowering.model()
    add_initializers(model, lowering.initializers())
    session = Session(model)
    return next(iter(session.run(dict(zip(session.inputs, arrays, strict=True))).values()))


def conv(*shapes: Any, dtype: str = "float32", **changes: Any) -> Program:
    return build(lambda *x: convolution.conv(*x, **PLAIN | changes), *shapes, dtype=dtype)


def conv_transpose(*shapes: Any, **changes: Any) -> Program:
    attributes = PLAIN | {"output_padding": (0, 0)} | changes
    return build(lambda *x: convolution.conv_transpose(*x, **attributes), *shapes)


@pytest.mark.parametrize("size", [(2, 2), (4, 7), (5, 3), (1, 6)])
@pytest.mark.parametrize("padding", [((1, 1), (1, 1)), ((2, 1), (0, 1)), ((2, 2), (0, 3))])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("write", [conv, conv_transpose])
def test_it_computes_the_convolution(
    monkeypatch: pytest.MonkeyPatch, write: Any, size: tuple[int, int], padding: Any, biased: bool
) -> None:
    monkeypatch.setattr(MODULE, "WORTHWHILE", np.inf)
    weight = (5, 3, 3, 3) if write is conv else (3, 5, 3, 3)
    if write is conv_transpose:
        padding = tuple((2 - before, 2 - after) for before, after in padding)
    program = write((2, 3, *size), weight, *([(5,)] if biased else []), padding=padding)
    assert not operators(program) & {"Conv", "ConvTranspose"}
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(value.shape).astype(np.float32) for value in program.inputs]
    expected = program(*arrays)
    np.testing.assert_allclose(run(program, *arrays), expected, rtol=1e-5, atol=1e-5)


def test_its_rounding_error_is_that_of_a_direct_convolution(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape) for shape in SMALL]
    truth = convolution.conv(*arrays, **PLAIN)
    program = conv(*SMALL)

    def error() -> float:
        return float(np.sqrt(np.mean((run(program, *(x.astype(np.float32) for x in arrays)) - truth) ** 2)))

    fast = error()
    assert "Conv" not in operators(program)
    monkeypatch.setattr(MODULE, "WORTHWHILE", 0.0)
    assert "Conv" in operators(program)
    assert fast < 2 * error()


def test_a_convolution_and_its_gradient_share_the_kernels() -> None:
    def both(x: Any, weight: Any) -> Any:
        return convolution.conv(x, weight, **PLAIN), convolution.conv_transpose(
            x, weight, output_padding=(0, 0), **PLAIN
        )

    nodes = lower_values(program := build(both, *SMALL), program.outputs, ()).graph.nodes
    assert sum(node.op_type == "MatMul" for node in nodes) == 1 + 3 + 3


@pytest.mark.parametrize(
    "program",
    [
        conv((1, 256, 4, 4), SMALL[1]),  # the kernels are too many for one image
        conv((64, 256, 32, 32), SMALL[1]),  # the images are too large
        conv((64, 16, 4, 4), (16, 16, 3, 3)),  # too few channels
        conv((symbol("n"), 256, 4, 4), SMALL[1]),
        conv(SMALL[0], (256, 256, 1, 3), padding=((0, 0), (1, 1))),
        conv(SMALL[0], SMALL[1], stride=(1, 2)),
        conv(SMALL[0], SMALL[1], dilation=(2, 1)),
        conv(SMALL[0], (256, 128, 3, 3), groups=2),
        conv(*SMALL, dtype="float64"),
        build(
            lambda x, weight: convolution.conv(x, weight, **PLAIN),
            SMALL[0],
            parameters={"weight": np.ones(SMALL[1], np.float32)},
        ),
    ],
)
def test_other_convolutions_stay(program: Program) -> None:
    assert "Conv" in operators(program)
