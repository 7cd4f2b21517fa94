"""What is alive before the tests of networks in parts."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture(autouse=True, scope="module")
def frozen_objects_of_other_tests() -> None:
    """Take what other tests have left alive from the garbage collector, which is run after each part of a network."""
    gc.collect()
    gc.freeze()
