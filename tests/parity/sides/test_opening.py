"""What a network is is asked in one place."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cellbridge import parity
from cellbridge.converter import from_torch, to_onnx
from cellbridge.parity import jax_side
from cellbridge.parity.jobs.generation.check import check_generation
from cellbridge.parity.jobs.locks.snapshot import take_snapshot
from cellbridge.parity.jobs.out_of_core.check import check_out_of_core
from cellbridge.parity.options import Options
from cellbridge.parity.sides.kinds import Kind, kind_of_path
from cellbridge.parity.sides.opening import OPENERS, Given, kind_of, open_side
from cellbridge.runtime import nn
from cellbridge.runtime.errors import UsageError

PARITY = Path(__file__).parents[3] / "parity"
X = torch.ones(2, 3)
CLASSES = {"Module", "Cell", "ModelProto", "JaxSide", "PathLike"}
"""Classes of networks, and of what names one. A Program is also what nodes hold, so it isn't counted here."""
ELSEWHERE = {
    "pairing/by_structure/ports.py": 1,  # a Cell of the runtime, not of MindSpore
    "inputs/definitions.py": 1,  # a path that a model file may define
    "checking/onnx_files/module_and_file.py": 2,  # a model, or the path of its file, which messages name
    "checking/quantized/parts.py": 1,  # a model, or its path
    "sides/jax_hints.py": 3,  # how to give a network in JAX, for messages
    "sides/jax_side.py": 1,  # makes a side of a network in JAX
    "sides/kept_state.py": 3,  # the state of modules and of Cells
    "sides/known_frameworks.py": 2,  # the framework of a Cell
    "sides/onnx_models.py": 2,  # a model, or its path
    "jobs/sweeping/listing.py": 1,  # what a module of Python holds
}
"""How often another file asks, with what it asks of. A comparison or a command asks `kind_of`."""


def asks(path: Path) -> int:
    """The number of times that a file asks whether something is a network of a class."""
    count = 0
    source = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)) if "isinstance(" in source else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            parts = [part for part in ast.walk(node.args[1]) if isinstance(part, (ast.Name, ast.Attribute))]
            names = {part.id if isinstance(part, ast.Name) else part.attr for part in parts}
            # nnx.Module: a part of a network in JAX
            count += bool(names & CLASSES) and not any(ast.unparse(part) == "nnx.Module" for part in parts)
    return count


def test_one_place_asks_what_a_network_is() -> None:
    counts = Counter({path.relative_to(PARITY).as_posix(): asks(path) for path in PARITY.rglob("*.py")})
    assert counts.pop("sides/opening.py") == 5
    assert {file: count for file, count in counts.items() if count} == ELSEWHERE


@pytest.fixture
def networks(tmp_path: Path) -> dict[Kind, Any]:
    module = torch.nn.Linear(3, 2)
    program = from_torch(module, (X,))
    model = to_onnx(program, tmp_path / "m.onnx")
    (tmp_path / "rec").mkdir()
    return {
        Kind.MODULE: module, Kind.PROGRAM: program, Kind.CELL: nn.Dense(3, 2), Kind.JAX: jax_side(np.sin, {}),
        Kind.RECORDING: str(tmp_path / "rec"), Kind.MODEL_FILE: "net.py:make",
        Kind.WEIGHTS: "w.safetensors", Kind.ONNX_FILE: tmp_path / "m.onnx", Kind.ONNX_MODEL: model,
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


@pytest.mark.parametrize("kind", list(Kind))
def test_only_a_module_is_taken_where_one_is_needed(networks: dict[Kind, Any], kind: Kind) -> None:
    network = networks[kind]
    entries: dict[str, Callable[[], object]] = {
        "converted": lambda: parity.check(network, (X,), grads=False),
        "trained": lambda: parity.check_training(network, (X,), steps=1),
        "the reference": lambda: parity.compare_training(network, network, steps_of, steps_of, []),
        "recorded": lambda: parity.record(network, (X,), "absent/folder"),
        "locked": lambda: take_snapshot(network, (X,), {}, Options()),
        "compared in parts": lambda: check_out_of_core(network, (X,), memory=0),
    }
    for purpose, entry in entries.items():
        if kind is Kind.MODULE:
            continue
        with pytest.raises(UsageError, match=f"^a torch module is {purpose}, given .*\n  what to do: "):
            entry()
    if kind is not Kind.MODULE:
        with pytest.raises(UsageError, match=r"^a torch module continues a sequence, given .*\n  what to do: "):
            check_generation(network, X)


def steps_of(network: Any, batches: Any) -> Iterator[None]:
    yield


def test_a_model_file_is_named_in_messages(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("raise RuntimeError('it is never run')")
    with pytest.raises(UsageError, match=r"given a model file, .*net.py\n  what to do: the commands of parity take"):
        parity.compare(torch.nn.Linear(3, 2), tmp_path / "net.py", (X,))
    with pytest.raises(UsageError, match=r"the reference must be .* given .*gone.py, which isn't there"):
        parity.compare(tmp_path / "gone.py", torch.nn.Linear(3, 2), (X,))


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("net.py", Kind.MODEL_FILE), ("net.py:make", Kind.MODEL_FILE), ("package.module:make", Kind.MODEL_FILE),
        ("cases.py[small: 3.5]", Kind.MODEL_FILE), ("net.pt2", Kind.MODEL_FILE), ("net.PT2", Kind.MODEL_FILE),
        ("weights.pth", Kind.MODEL_FILE), ("weights.safetensors", Kind.WEIGHTS), ("weights.CKPT", Kind.WEIGHTS),
        ("net.onnx", Kind.ONNX_FILE), ("model", Kind.ONNX_FILE),
        ("there:name", Kind.ONNX_FILE), ("folder", Kind.RECORDING), ("folder.py", Kind.RECORDING),
    ],
)  # fmt: skip
def test_what_a_path_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, kind: Kind) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there:name").touch()
    Path("folder").mkdir()
    Path("folder.py").mkdir()
    assert kind_of_path(path) is kind
    assert kind_of(path) is kind
    assert kind_of(Path(path)) is kind
