"""The table of ONNX functions refuses what can't be meant."""

from __future__ import annotations

from typing import Any

import pytest

from cellbridge.runtime.errors import ProgramError
from cellbridge.runtime.onnx_functions.registry import get_onnx_function, onnx_function


def test_an_operator_that_is_taken_is_refused() -> None:
    before = get_onnx_function("Reshape")
    with pytest.raises(ValueError, match="Reshape is already in the table"):

        @onnx_function("Reshape")
        def _(data: Any) -> Any:
            return data

    assert get_onnx_function("Reshape") is before


def test_contents_that_are_no_operands_are_refused() -> None:
    with pytest.raises(ValueError, match=r"Unheard has the operands \['data'\], and not all of \('shape',\)"):

        @onnx_function("Unheard", "shape")
        def _(data: Any) -> Any:
            return data

    with pytest.raises(ProgramError, match="Unheard"):
        get_onnx_function("Unheard")
