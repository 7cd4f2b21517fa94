"""What a side can do is asked by what it promises, not by its class, so that a new side is one file."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from cellbridge.converter import from_torch
from cellbridge.parity.options import Options
from cellbridge.parity.sides import abilities
from cellbridge.parity.sides.exported_side import ExportedSide
from cellbridge.parity.sides.interpreter_side import InterpreterSide
from cellbridge.parity.sides.torch_side import TorchSide

PARITY = Path(__file__).parents[3] / "parity"
ELSEWHERE = {
    "sides/jax_hints.py": 3,  # how to give a network in JAX, for messages
    "sides/jax_side.py": 1,  # makes a side of a network in JAX
    "sides/known_frameworks.py": 1,  # the name of a port
    "sides/opening.py": 1,  # the table of openers
    "sides/reported_cells.py": 1,  # the modules that a report lists though they didn't run
}
"""How often a file asks for the class of a side."""
X = torch.ones(2, 3)
PROMISES = {
    TorchSide: {
        "GivesInputs",
        "HasCode",
        "HasIntegers",
        "HasProgram",
        "HasSettings",
        "KnowsGradientCode",
        "RunsModule",
    },
    InterpreterSide: {"GivesInputs", "HasProgram", "KeepsForms", "RunsProgram"},
    ExportedSide: {"RunsInOnnxRuntime"},
}


def test_the_class_of_a_side_is_asked_nowhere_but_among_sides() -> None:
    counts: Counter[str] = Counter()
    for path in PARITY.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)) if "isinstance(" in source else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
                names = [
                    ast.unparse(part) for part in ast.walk(node.args[1]) if isinstance(part, (ast.Name, ast.Attribute))
                ]
                counts[path.relative_to(PARITY).as_posix()] += any(name.endswith("Side") for name in names)
    assert {file: count for file, count in counts.items() if count} == ELSEWHERE


@pytest.mark.parametrize("kind", list(PROMISES))
def test_what_a_side_promises(kind: type[Any]) -> None:
    module = torch.nn.Linear(3, 2)
    program = from_torch(module, (X,))
    sides: dict[type[Any], Any] = {
        TorchSide: TorchSide.of_options("torch", module, (X,), {}, Options()),
        InterpreterSide: InterpreterSide("interpreter", program, (X,), {}),
        ExportedSide: ExportedSide("onnxruntime", program, (X,), {}),
    }
    promises = {
        name: value
        for name, value in vars(abilities).items()
        if getattr(value, "_is_protocol", False) and value.__module__ == abilities.__name__
    }
    assert {name for name, promise in promises.items() if isinstance(sides[kind], promise)} == PROMISES[kind]


def test_inputs_have_the_names_of_the_network() -> None:
    module = torch.nn.Linear(3, 2)
    program = from_torch(module, (X,))
    for side in (
        TorchSide.of_options("torch", module, (X,), {}, Options()), InterpreterSide("interpreter", program, (X,), {})
    ):  # fmt: skip
        given = side.given_inputs()
        assert given is not None
        arguments, tensors = given
        assert torch.equal(arguments[0][0], X)
        assert {place: name for place, (name, _) in tensors.items()} == {0: "input"}
    assert TorchSide.of_options("torch", module, (X,), {}, Options()).integers() >= {2, 3}
