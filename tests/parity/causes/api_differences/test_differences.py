"""Every entry of the table of differences, on a wrong port and on a right one."""

from __future__ import annotations

import pytest

from cellbridge.parity.causes.api_differences import explain
from cellbridge.parity.causes.api_differences.entry import Difference, LayerPair
from cellbridge.parity.causes.api_differences.table import LAYER_TABLE
from tests.parity.causes.api_differences import (
    cases_activation,
    cases_layers,
    cases_normalization,
    cases_sequences,
    cases_windows,
)
from tests.parity.causes.api_differences.difference_cases import Case

CASES = [
    *cases_windows.CASES,
    *cases_normalization.CASES,
    *cases_activation.CASES,
    *cases_layers.CASES,
    *cases_sequences.CASES,
]
ENTRIES = [entry for family in LAYER_TABLE.values() for entry in family]


def name(case: Case) -> str:
    return case.lines[0].partition(" in the candidate")[0]


@pytest.mark.parametrize("case", CASES, ids=name)
def test_a_wrong_port_is_explained(case: Case) -> None:
    assert explain(case.module, case.wrong, case.inputs) == list(case.lines)


@pytest.mark.parametrize("case", CASES, ids=name)
def test_nothing_is_said_of_a_right_port(case: Case) -> None:
    module, cell = case.right_pair
    assert explain(module, cell, case.inputs) == []


@pytest.mark.parametrize(
    "entry", ENTRIES, ids=lambda entry: f"{entry.layers[:1]}-{entry.cell_arguments}-{entry.module_arguments}"
)
def test_every_entry_has_a_case(entry: Difference) -> None:
    cases = [
        case
        for case in CASES
        if entry.concerns(pair := LayerPair(case.module, case.wrong, case.inputs)) and entry.find(pair) is not None
    ]
    assert cases
