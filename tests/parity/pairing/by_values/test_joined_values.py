"""Tensors of the module that a port has in parts."""

from __future__ import annotations

from cellbridge.parity.correspondence.layouts import Layout
from cellbridge.parity.pairing.by_values.joined_values import Joined
from cellbridge.runtime.ir.types import FLOAT64, Type, Value
from cellbridge.runtime.namespace import Namespace


def test_everything_that_a_joined_tensor_adds_may_be_a_place() -> None:
    """What isn't among it is dropped with the tensor, and a tensor that has its place there would have none."""
    names = Namespace()
    turned = Layout((2, 3), (2, 3), (1, 0), (3, 2))
    parts = [(Value(name, Type(FLOAT64, (2, 3))), turned) for name in ("left", "right")]
    joined = Joined.of(parts, 0, (2, 3, 2), names)
    computed = {value for node in joined.nodes(0, None) for value in node.outputs}
    assert len(computed) == 9  # each part read, taken and brought back; all joined, divided, and joined again
    assert set(joined.added) == computed
