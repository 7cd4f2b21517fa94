"""How a value is divided that holds several tensors."""

from __future__ import annotations

from cellbridge.parity.pairing.by_values.sections import _ends


def test_sections_of_several_sizes_have_elements() -> None:
    """The first one starts at 0, where none ends."""
    assert _ends([(0, 2), (2, 5)], 6) == (2, 5, 6)
