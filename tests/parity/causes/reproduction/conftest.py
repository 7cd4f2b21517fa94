"""Settings of the tests of reproductions."""

from __future__ import annotations

import pytest

from cellbridge.parity.causes.reproduction import running
from tests.parity.causes.reproduction.scripts import run_here


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run scripts in this process: starting torch anew takes seconds."""
    monkeypatch.setattr(running, "start", run_here)
