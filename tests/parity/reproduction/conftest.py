"""Settings of the tests of reproductions."""

from __future__ import annotations

import pytest

from cellbridge.parity.reproduction import running
from tests.parity.reproduction.scripts import run_here


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run scripts in this process: starting torch anew takes seconds."""
    monkeypatch.setattr(running, "start", run_here)
