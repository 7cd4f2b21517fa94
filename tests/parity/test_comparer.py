from __future__ import annotations

import pytest

from cellbridge.parity.comparer import _common_ancestor


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["embed", "lm_head"], ""),
        (["encoder.embed", "encoder.head"], "encoder"),
        (["encoder.layers.0.embed", "encoder.layers.1.head"], "encoder.layers"),
        (["left.shared.embed", "right.shared.head"], ""),  # alike further in, but not inside one Cell
    ],
)
def test_common_ancestor_is_a_prefix(paths: list[str], expected: str) -> None:
    assert _common_ancestor(paths) == expected
