"""Names with `*` in them."""

from __future__ import annotations

import fnmatch
import re
import time

from hypothesis import given
from hypothesis import strategies as st

from cellbridge.parity.correspondence.name_patterns import match_pattern


def by_regular_expression(pattern: str, name: str) -> tuple[str, ...] | None:
    match = re.fullmatch("(.*)".join(map(re.escape, pattern.split("*"))), name, re.DOTALL)
    return match.groups() if match else None


@given(st.text("ab.*", max_size=7), st.text("ab.\n", max_size=9))
def test_stars_stand_for_what_a_greedy_regular_expression_finds(pattern: str, name: str) -> None:
    assert match_pattern(pattern, name) == (by_regular_expression(pattern, name) if "*" in pattern else ()) or (
        "*" not in pattern and pattern != name and match_pattern(pattern, name) is None
    )


def test_many_stars_end() -> None:
    """A regular expression would try all places of all stars."""
    begun = time.perf_counter()
    assert match_pattern("*a" * 40 + "*b", "a" * 5000) is None
    assert match_pattern("*a" * 2000 + "*b", "a" * 10_000) is None
    assert match_pattern("*a" * 40, "a" * 5000) == ("a" * 4960, *[""] * 39)
    assert not fnmatch.fnmatchcase("a" * 5000, "*a" * 40 + "*b")  # of --only, --skip and --freeze
    assert time.perf_counter() - begun < 2
