"""What a network is is asked in one place."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cellbridge.converter import from_torch, to_onnx
from cellbridge.parity import jax_side
from cellbridge.parity.options import Options
from cellbridge.parity.sides.opening import OPENERS, Given, Kind, kind_of, open_side
from cellbridge.runtime import nn
from cellbridge.runtime.errors import UsageError

PARITY = Path(__file__).parents[3] / "parity"
X = torch.ones(2, 3)
CLASSES = {"Module", "Cell", "ModelProto", "JaxSide", "PathLike"}
"""Classes of networks, and of what names one. A Program is also what nodes hold, so it isn't counted here."""
ELSEWHERE = {
    "causes/runtime_faults/nodes.py": 1,  # a model of ONNX Runtime, or its path
    "inputs/definitions.py": 4,  # what a model file may define
    "checking/onnx_files/module_and_file.py": 3,  # a model, or the path of its file
    "jobs/parallel/worker.py": 1,  # what parallelize() has returned
    "checking/quantized/parts.py": 1,  # a model, or its path
    "sides/jax_hints.py": 3,  # how to give a network in JAX, for messages
    "sides/jax_side.py": 1,  # makes a side of a network in JAX
    "sides/kept_state.py": 3,  # the state of modules and of Cells
    "sides/known_frameworks.py": 2,  # the framework of a Cell
    "sides/onnx_reference.py": 1,  # a model, or its path
    "sides/onnxruntime_side.py": 2,  # a model, or its path
    "jobs/sweeping/listing.py": 1,  # what a module of Python holds
}
"""How often another file asks, with what it asks of. A comparison or a command asks `kind_of`."""


def asks(path: Path) -> int:
    """The number of times that a file asks whether something is a network of a class."""
    found = 0
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            parts = [part for part in ast.walk(node.args[1]) if isinstance(part, (ast.Name, ast.Attribute))]
            names = {part.id if isinstance(part, ast.Name) else part.attr for part in parts}
            # nnx.Module: a part of a network in JAX
            found += bool(names & CLASSES) and not any(ast.unparse(part) == "nnx.Module" for part in parts)
    return found


def test_one_place_asks_what_a_network_is() -> None:
    counts = Counter({path.relative_to(PARITY).as_posix(): asks(path) for path in PARITY.rglob("*.py")})
    assert counts.pop("sides/opening.py") == 4
    assert {file: count for file, count in counts.items() if count} == ELSEWHERE


@pytest.fixture
def networks(tmp_path: Path) -> dict[Kind, Any]:
    module = torch.nn.Linear(3, 2)
    program = from_torch(module, (X,))
    model = to_onnx(program, tmp_path / "m.onnx")
    (tmp_path / "rec").mkdir()
    return {
        Kind.MODULE: module, Kind.PROGRAM: program, Kind.CELL: nn.Dense(3, 2), Kind.JAX: jax_side(np.sin, {}),
        Kind.RECORDING: str(tmp_path / "rec"), Kind.ONNX_FILE: tmp_path / "m.onnx", Kind.ONNX_MODEL: model,
        Kind.UNKNOWN: np.sin,
    }  # fmt: skip


def test_each_kind_is_told_from_the_others(networks: dict[Kind, Any]) -> None:
    assert {kind: kind_of(network) for kind, network in networks.items()} == {kind: kind for kind in Kind}
    assert {opener.kind for opener in OPENERS} == {*Kind} - {Kind.UNKNOWN}


@pytest.mark.parametrize("kind", list(Kind))
def test_what_can_be_opened_by_itself_is(networks: dict[Kind, Any], kind: Kind) -> None:
    given = Given("candidate", networks[kind], (X,), {}, Options(), networks[Kind.MODULE])
    if kind in (Kind.MODULE, Kind.PROGRAM, Kind.ONNX_FILE, Kind.ONNX_MODEL):
        assert open_side(given).name == "candidate"
    else:
        with pytest.raises(UsageError, match="the candidate must be a torch module or a program, a Cell"):
            open_side(given)
