"""The documentation of the differences agrees with the table, and its names and defaults are real."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
import torch

from cellbridge.parity.causes.api_differences.entry import Difference
from cellbridge.parity.causes.api_differences.page import default, first_cell_class, page, torch_class
from cellbridge.parity.causes.api_differences.table import LAYER_TABLE, OPTIMIZER_TABLE
from cellbridge.runtime import nn

PAGE = Path(__file__).parents[4] / "docs" / "differences.md"
LAYERS = [(entry, torch.nn) for family in LAYER_TABLE.values() for entry in family if entry.layers]
ALL = [*LAYERS, *((entry, torch.optim) for entry in OPTIMIZER_TABLE)]


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), (
        "write it anew: python -m cellbridge.parity.causes.api_differences.page > docs/differences.md"
    )


def test_an_explanation_has_one_column_beside_it() -> None:
    """With three beside it, the explanation had a quarter of the page."""
    rows = [line for line in page().splitlines() if line.startswith("| ") and "<br>torch: " in line]
    assert len(rows) > 80
    assert [row for row in rows if row.count(" | ") != 1] == []


@pytest.mark.parametrize(("entry", "library"), ALL, ids=lambda value: getattr(value, "here", ""))
def test_layers_of_an_entry_exist(entry: Difference, library: object) -> None:
    assert [name for name in entry.layers if not hasattr(nn, name)] == []
    assert torch_class(entry, library) is not None
    assert [name for name in entry.originals if not hasattr(library, name)] == []


@pytest.mark.parametrize(
    ("entry", "library"),
    [(entry, library) for entry, library in ALL if not entry.rule],
    ids=lambda value: getattr(value, "here", ""),
)
def test_arguments_said_to_be_the_same_are(entry: Difference, library: object) -> None:
    """What has no rule has the same name and default on both sides."""
    cell_class, module_class = first_cell_class(entry), torch_class(entry, library)
    assert cell_class is not None
    assert module_class is not None
    assert entry.cell_arguments == entry.module_arguments
    cell_parameters, module_parameters = (inspect.signature(cls).parameters for cls in (cell_class, module_class))
    assert entry.cell_arguments in cell_parameters
    given = [
        parameters[entry.cell_arguments].default
        for parameters in (cell_parameters, module_parameters)
        if entry.cell_arguments in parameters
    ]
    assert len(set(given)) == 1


@pytest.mark.parametrize(
    ("layer", "argument", "text"),
    [
        (nn.Conv2d, "pad_mode", 'pad_mode="same"'),
        (nn.LayerNorm, "epsilon", "epsilon=1e-7"),
        (nn.BatchNorm2d, "momentum", "momentum=0.9"),
        (torch.nn.BatchNorm2d, "momentum", "momentum=0.1"),
        (nn.Dense, "in_channels", "in_channels"),
    ],
)
def test_defaults_are_read_off_the_signatures(layer: type, argument: str, text: str) -> None:
    assert default(layer, argument) == text
    assert text in page()
