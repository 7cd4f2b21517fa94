"""Candidates that can't be read as programs."""

from __future__ import annotations

from typing import Any

import pytest

from cellbridge.parity.causes.cell_program import Network
from cellbridge.parity.judging import diagnoses
from cellbridge.parity.sides.abilities import HasProgram
from cellbridge.parity.sides.interpreter_side import InterpreterSide
from cellbridge.parity.sides.run import Run
from cellbridge.parity.sides.torch_side import TorchSide
from cellbridge.runtime.errors import ConversionError


@pytest.fixture
def opaque_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    """The candidate of a comparison can't be captured."""
    read, read_cell = diagnoses.network_of, diagnoses.cell_in_interpreter

    def read_reference(side: HasProgram, run: Run) -> Network:
        if side.name == "candidate":
            raise ConversionError("it can't be captured")
        return read(side, run)

    def read_cell_of_reference(side: TorchSide, *more: Any) -> InterpreterSide:
        if side.name == "candidate":
            raise ConversionError("it can't be captured")
        return read_cell(side, *more)

    monkeypatch.setattr(diagnoses, "network_of", read_reference)
    monkeypatch.setattr(diagnoses, "cell_in_interpreter", read_cell_of_reference)
