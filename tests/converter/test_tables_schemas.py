"""Every entry of the ATen table against torch's schema of that operator."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch

from cellbridge.converter.capture import tables  # noqa: F401
from cellbridge.converter.capture.result_shapes import RESULTS

# importing the tables fills `table.TABLE`
from cellbridge.converter.capture.tables import table
from cellbridge.converter.torch_version import has_change


def mismatch(target: str, translation: table.Translation) -> str | None:
    """What the parameters of a translation have against the schema: a name, a kind, a number or a default."""
    _, name, overload = target.split(".")
    arguments = [
        argument
        for argument in getattr(getattr(torch.ops.aten, name), overload)._schema.arguments
        # a generator can't be exported, and keywords about placement are dropped
        if argument.name != "generator" and not (argument.kwarg_only and argument.name in table.PLACEMENT)
    ]
    signature = inspect.signature(translation)
    try:
        _bind(signature, arguments)
        _bind(signature, [argument for argument in arguments if not argument.has_default_value()])
    except TypeError as error:
        return str(error)
    for argument in arguments:
        parameter = signature.parameters.get(argument.name)
        if argument.has_default_value() and parameter is not None:
            given, expected = _plain(parameter.default), _plain(argument.default_value)
            if given != expected:
                return f"{argument.name} defaults to {given}, torch's to {expected}"
    return None


def _bind(signature: inspect.Signature, arguments: list[Any]) -> None:
    positional = [argument.name for argument in arguments if not argument.kwarg_only]
    signature.bind("context", *positional, **{a.name: a.name for a in arguments if a.kwarg_only})


def _plain(default: Any) -> str:
    """One way to write a default: [1, 1] is 1 for each axis, and no axes are all of them, as None is."""
    if isinstance(default, (list, tuple)):
        default = None if not default else default[0] if len(set(default)) == 1 else list(default)
    return str(float(default) if isinstance(default, int) and not isinstance(default, bool) else default)


def removed(name: str) -> bool:
    """Whether torch has it no more: older versions that are supported do."""
    return name == "aten.cholesky.default" and has_change("no aten.cholesky")


# other libraries register operators when they are imported: their schemas aren't known here
@pytest.mark.parametrize("target", sorted(t for t in table.TABLE if t.startswith("aten.") and not removed(t)))
def test_entry_takes_what_torch_gives(target):
    assert mismatch(target, table.TABLE[target]) is None


@pytest.mark.parametrize("operator", RESULTS, ids=str)
def test_what_torch_knows_the_shape_of_alone_has_an_entry(operator):
    assert str(operator) in table.TABLE


def test_mismatch_is_found():
    def other_default(context, self, other, *, alpha=2):
        return self

    def one_operand(context, self):
        return self

    def required(context, self, other, *, alpha):
        return self

    assert mismatch("aten.add.Tensor", other_default) == "alpha defaults to 2.0, torch's to 1.0"
    assert mismatch("aten.add.Tensor", one_operand) == "too many positional arguments"
    assert mismatch("aten.add.Tensor", required) == "missing a required argument: 'alpha'"


def test_name_entered_twice_is_refused():
    with pytest.raises(ValueError, match=r"aten\.add\.Tensor is already in the table"):
        table.aten("aten.add.Tensor")(lambda context, self: self)
