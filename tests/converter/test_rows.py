"""Rows of tables: what they pass on, and rows that name what isn't there."""

from __future__ import annotations

from typing import Any

import pytest

from cellbridge.converter.capture.tables.same_names import translation_of
from cellbridge.converter.capture.tables.table import TABLE, pass_on, schema_of
from cellbridge.converter.rows import Call
from cellbridge.runtime import ops


def given(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return args, kwargs


def test_a_row_passes_names_and_literals_on() -> None:
    call = Call((given, 'x, None, -1, dim=axis, mode="none"'), ["x", "axis"])
    args, kwargs = call.arguments({"x": 1, "axis": 2, "unused": 3})
    assert call.function(*args, **kwargs) == ((1, None, -1), {"dim": 2, "mode": "none"})


@pytest.mark.parametrize("text", ["y", "x, dim=axes", "x + 1", "f(x)"])
def test_a_row_that_names_something_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"isn't one of|malformed node"):
        Call((given, text), ["x", "axis"])


def test_a_row_of_an_operator_gets_its_arguments_by_name_with_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(TABLE, "aten.hardtanh.default")
    pass_on({"aten.hardtanh.default": (given, "self, minimum=min_val, maximum=max_val")})
    translation = TABLE["aten.hardtanh.default"]
    assert translation("context", "x") == (("x",), {"minimum": -1, "maximum": 1})
    assert translation("context", "x", 0, max_val=6) == (("x",), {"minimum": 0, "maximum": 6})
    assert (translation.__doc__ or "").startswith("aten::hardtanh(Tensor self, Scalar min_val=-1")


def test_an_operator_that_this_version_of_torch_lacks_has_no_row() -> None:
    pass_on({"aten.no_such_operator.default": (given, "self"), "aten.hardtanh.no_such_overload": (given, "self")})
    assert not {"aten.no_such_operator.default", "aten.hardtanh.no_such_overload"} & TABLE.keys()


def test_an_op_with_other_arguments_than_the_operator_of_its_name_is_refused() -> None:
    with pytest.raises(ValueError, match=r"takes other arguments than the op hardtanh"):
        translation_of(ops.get("hardtanh"), schema_of("aten.hardtanh.default"))
