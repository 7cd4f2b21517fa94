"""Settings of all tests of parity."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from cellbridge.parity.checking import engine
from cellbridge.parity.judging.trial import Trial


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> Iterator[None]:
    """One thread for torch: the networks are small, and synchronizing threads costs more than it saves."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def _user_files_are_forgotten(forgotten_user_files: None) -> None:
    """Load each test's model files anew."""


@pytest.fixture(autouse=True)
def _no_search_for_causes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the search for causes, two thirds of the time of a failing comparison, unless a test is about it."""
    if request.node.get_closest_marker("causes") is None:
        monkeypatch.setattr(Trial, "add_causes", lambda *_: None)


@pytest.fixture(autouse=True)
def _no_probes_by_default(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out further inputs, half the time of a passing comparison, unless a test asks for them or is about them."""
    if request.node.get_closest_marker("probes") is None:
        monkeypatch.setattr(engine, "_with_probes", lambda options, given: options)
