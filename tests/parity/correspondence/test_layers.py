"""The kind of layer that a module is."""

from __future__ import annotations

import pytest
from torch import nn

from cellbridge.parity.correspondence.layers import kind_of_module


class Linear(nn.Module):
    """A block of the user's with the name of a layer of torch."""


class Wide(nn.Linear):
    """A layer of torch with something more."""


@pytest.mark.parametrize(
    ("module", "kind"), [(nn.Linear(2, 2), "linear"), (Wide(2, 2), "linear"), (Linear(), ""), (nn.Module(), "")]
)
def test_the_kind_of_a_module(module: nn.Module, kind: str) -> None:
    assert kind_of_module(module) == kind
