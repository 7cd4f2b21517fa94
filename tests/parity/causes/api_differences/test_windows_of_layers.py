"""Positions of windows in the table, compared with the layers of both frameworks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from cellbridge.parity import compare
from cellbridge.parity.causes.api_differences.entry import LayerPair
from cellbridge.parity.causes.api_differences.windows import output_shapes, windows_of_cell
from cellbridge.runtime import Tensor, nn
from tests.parity.causes.api_differences import cases_windows
from tests.parity.causes.api_differences.difference_cases import Case

CALLED = [case for case in cases_windows.CASES if case.inputs and case.inputs[0].size < 10_000]  # the quick ones


@given(data=st.data(), axes=st.sampled_from([1, 2]), transposed=st.booleans())
def test_shapes_of_convolutions_are_predicted(data: Any, axes: int, transposed: bool) -> None:
    kernel, stride, dilation = (data.draw(st.integers(1, most)) for most in (4, 3, 2))
    mode = data.draw(st.sampled_from(["same", "valid", "pad"]))
    padding, more = data.draw(st.integers(0, 2)), {}
    torch_arguments = {"padding": padding, "bias": False, "stride": stride, "dilation": dilation}
    if mode == "pad":
        more["padding"] = data.draw(st.integers(0, 2))
    assume(not transposed or 2 * max(padding, more.get("padding", 0)) <= dilation * (kernel - 1))
    shape = (2, 3, *(data.draw(st.integers(8, 12)) for _ in range(axes)))
    suffix, prefix = ("Transpose", "Transpose") if transposed else ("", "")
    module = getattr(torch.nn, f"Conv{prefix}{axes}d")(3, 4, kernel, **torch_arguments)
    cell = getattr(nn, f"Conv{axes}d{suffix}")(3, 4, kernel, stride, pad_mode=mode, dilation=dilation, **more)
    assert output_shapes(LayerPair(module, cell, (np.zeros(shape),))) == shapes(module, cell, shape)


@given(data=st.data(), kind=st.sampled_from(["MaxPool", "AvgPool"]), axes=st.sampled_from([1, 2]))
def test_shapes_of_pools_are_predicted(data: Any, kind: str, axes: int) -> None:
    kernel, stride = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    mode = data.draw(st.sampled_from(["same", "valid", "pad"]))
    padding, more = data.draw(st.integers(0, kernel // 2)), {}
    if mode == "pad":
        more = {"padding": data.draw(st.integers(0, kernel // 2)), "ceil_mode": data.draw(st.booleans())}
    shape = (2, 3, *(data.draw(st.integers(5, 12)) for _ in range(axes)))
    ceil_mode = data.draw(st.booleans())
    module = getattr(torch.nn, f"{kind}{axes}d")(kernel, stride, padding=padding, ceil_mode=ceil_mode)
    cell = getattr(nn, f"{kind}{axes}d")(kernel, stride, pad_mode=mode, **more)
    assert output_shapes(LayerPair(module, cell, (np.zeros(shape),))) == shapes(module, cell, shape)


def shapes(module: torch.nn.Module, cell: nn.Cell, shape: tuple[int, ...]) -> Any:
    x = torch.zeros(shape)
    return tuple(cell(Tensor(x.numpy())).shape), tuple(module(x).shape)


def test_unknown_windows_are_not_guessed() -> None:
    cell = nn.Conv2d(3, 4, 3)
    del cell.pad_mode
    assert windows_of_cell(LayerPair(torch.nn.Conv2d(3, 4, 3), cell)) is None


@pytest.mark.parametrize("case", CALLED, ids=lambda case: case.lines[0].partition(" in the candidate")[0])
@pytest.mark.every(4)
def test_the_verdict_agrees_with_the_table(case: Case) -> None:
    """Ports that the table criticizes fail with an explanation; the others pass."""
    inputs = [torch.from_numpy(np.random.default_rng(0).normal(size=x.shape).astype(x.dtype)) for x in case.inputs]
    report = compare(case.module, case.wrong, inputs)
    if "return_indices" in case.lines[0]:  # what both return agrees; that a result is missing is said
        assert report.ok
        assert not compare(case.module, case.wrong, inputs, strict=True).ok
    else:
        assert not report.ok
        assert report.cells[""].explanations[:1] == list(case.lines)
    assert compare(*case.right_pair, inputs).ok
