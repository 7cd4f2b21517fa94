"""Arguments have the names, and the order, that MindSpore 2.10 gives them (`names_of_arguments.txt`)."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellbridge.runtime as ms
from cellbridge.runtime import Tensor, nn, ops

TABLE = [line.split() for line in Path(__file__).with_name("names_of_arguments.txt").read_text().splitlines()]


def accepted(taker: Any) -> list[set[str]]:
    """For each parameter in order, the names that it may be given by."""
    others = getattr(taker, "other_names", {})
    function = taker.__init__ if inspect.isclass(taker) else taker
    parameters = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
    return [{p.name, *(synonym for synonym, name in others.items() if name == p.name)} for p in parameters]


@pytest.mark.parametrize(("name", "arguments"), [(name, arguments) for name, *arguments in TABLE])
def test_names_and_order(name, arguments):
    room, _, attribute = name.partition(".")
    taken = accepted(getattr({"ops": ops, "nn": nn}[room], attribute))
    missing = [a for a, names in zip(arguments, taken, strict=False) if a not in names] + arguments[len(taken) :]
    assert not missing, f"{name} takes {taken}"


def test_other_names_are_the_same_arguments():
    x, y = Tensor(np.array([[7.0, 8.0]], np.float32)), Tensor(np.array([[2.0, 3.0]], np.float32))
    index = Tensor(np.array([[1, 0]]), ms.int64)
    pairs = [
        (ops.floor_div(x=x, y=y), ops.floor_div(x, y)),
        (ops.floor_mod(x=x, y=y), ops.floor_mod(x, y)),
        (ops.true_divide(dividend=x, divisor=y), ops.true_divide(x, y)),
        (ops.gather_d(x=x, dim=1, index=index), ops.gather_d(x, 1, index)),
        (ops.tile(x, dims=(2, 1)), ops.tile(x, (2, 1))),
        (ops.transpose(x, dims=(1, 0)), ops.transpose(x, (1, 0))),
        (ops.inv(x=x), ops.inv(x)),
    ]
    for by_name, by_position in pairs:
        np.testing.assert_array_equal(by_name.asnumpy(), by_position.asnumpy())
