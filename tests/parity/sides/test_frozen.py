"""Nothing of a side is set from outside: every class of sides is a frozen dataclass."""

from __future__ import annotations

import ast
import dataclasses
import importlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from cellbridge.parity.sides.run import FORWARD, ReferenceRun, Run
from cellbridge.parity.sides.torch_side import TorchSide

PARITY = Path(__file__).parents[3] / "parity"


def classes_of_sides() -> Iterator[tuple[str, str]]:
    """Yield the module and name of each class that is run as a side."""
    for path in sorted(PARITY.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)) if "def run(self" in source else ():
            if isinstance(node, ast.ClassDef) and not any(ast.unparse(base) == "Protocol" for base in node.bases):
                runs = [m for m in node.body if isinstance(m, ast.FunctionDef) and m.name == "run"]
                if any(ast.unparse(m.args) == "self, run: Run" for m in runs):
                    module = ".".join(path.relative_to(PARITY).with_suffix("").parts)
                    yield f"cellbridge.parity.{module}", node.name


SIDES = list(classes_of_sides())


def test_there_are_sides() -> None:
    assert {name for _, name in SIDES} >= {"TorchSide", "InterpreterSide", "ExportedSide", "OnnxModelSide", "CellSide"}


@pytest.mark.parametrize(("module", "name"), SIDES)
def test_a_side_is_frozen(module: str, name: str) -> None:
    side = getattr(importlib.import_module(module), name)
    assert dataclasses.is_dataclass(side)
    assert side.__dataclass_params__.frozen  # type: ignore[attr-defined]


def test_a_side_that_was_replaced_forgets_what_runs_of_the_other_have_found_out() -> None:
    side = TorchSide("torch", torch.nn.Linear(2, 2), (torch.ones(1, 2),), {})
    first = side.in_interpreter().program
    assert side.in_interpreter().program is first
    with pytest.raises(dataclasses.FrozenInstanceError):
        side.joined = {("", 0): {1: 0}}  # type: ignore[misc]
    replaced = replace(side, args=(torch.ones(3, 2),))
    assert tuple(replaced.in_interpreter().program.inputs[0].shape) == (3, 2)


def test_a_run_of_what_the_reference_has_settled_takes_all_of_it() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout(0.5))
    side = TorchSide("torch", module, (torch.ones(1, 2),), {}, train=True)
    truth = side.run(Run("float64", FORWARD))
    settled = ReferenceRun.of(truth)
    assert (settled.draws, settled.slots, settled.result) == (truth.draws, truth.slots, truth.result)
    assert side.run(Run("float64", FORWARD, settled)).draws.keys() == truth.draws.keys() != set()
