"""Candidates that can't be read as programs."""

from __future__ import annotations

import pytest

from cellbridge.parity.comparison import causes
from cellbridge.parity.comparison.networks import HasProgram
from cellbridge.parity.diagnosis.cell_program import Network
from cellbridge.parity.sides.records import Run
from cellbridge.runtime.errors import ConversionError


@pytest.fixture
def opaque_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    """The candidate of a comparison can't be captured."""
    read = causes.network_of

    def read_reference(side: HasProgram, run: Run) -> Network:
        if side.name == "candidate":
            raise ConversionError("it can't be captured")
        return read(side, run)

    monkeypatch.setattr(causes, "network_of", read_reference)
