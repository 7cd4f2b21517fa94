"""What is fuzzed of what leaves: modules, source and reports, made of changed ONNX files."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from random import Random
from xml.etree import ElementTree

import numpy as np
import torch

from cellbridge.converter import from_onnx, to_cell_source, to_torch
from cellbridge.parity.inputs.affordable import memory_needed
from cellbridge.parity.inputs.onnx_inputs import generated_inputs
from cellbridge.parity.onnx_files.check import check_onnx
from cellbridge.parity.onnx_files.compare import compare_onnx
from cellbridge.parity.report import json_report, junit, terminal
from cellbridge.parity.report.report import Report
from cellbridge.parity.sides.records import Run
from cellbridge.parity.sides.torch_side import TorchSide
from cellbridge.runtime.errors import CellbridgeError
from cellbridge.runtime.ir.program import Program
from cellbridge.runtime.ops.higher_order.trips import limit_trips
from tests.fuzz.models import NAMES, backend_models, bases, changed_model

MAX_RUN_BYTES = 2**24  # bytes of a program that is run
MAX_TRIPS = 50
SHARE_OF_PAIRS = 1 / 4


def torch_module(random: Random, folder: Path) -> None:
    """A module made of a changed file: it is called as `parity run` calls it, shown, and written as Cells."""
    program = from_onnx(_changed(random, folder, "m.onnx"))
    for target in ("cellbridge", "mindspore"):
        try:
            ast.parse(to_cell_source(program, target))
        except CellbridgeError:
            continue
    module = to_torch(program)
    for inner in module.modules():
        require_tame(str(getattr(inner, "code", "")))
    if not is_small(program):
        return
    inputs = tuple(torch.from_numpy(np.array(x)) for x in generated_inputs(program, 0) if x.dtype.isbuiltin == 1)
    if len(inputs) == len(program.inputs):
        with limit_trips(MAX_TRIPS):
            TorchSide("torch", module, inputs, {}).run(Run("float32", grads=random.random() < 0.5))


def report(random: Random, folder: Path) -> None:
    """The report on a changed file, or on a file and a changed one, as text, JSON and JUnit."""
    path = _changed(random, folder, "m.onnx")
    program = from_onnx(path)
    if not is_small(program):
        return
    if random.random() < SHARE_OF_PAIRS:
        other = folder / "o.onnx"
        other.write_bytes(random.choice(bases()))
        made = compare_onnx(str(path), str(other))
    else:
        made = check_onnx(str(path), only=[random.choice(["", "*", *NAMES])] if random.random() < 0.2 else [])
    require_readable(made, folder)


def _changed(random: Random, folder: Path, name: str) -> Path:
    base = random.choice(bases() if random.random() < 0.4 else backend_models())
    path = folder / name
    path.write_bytes(changed_model(base, random, folder).SerializeToString())
    return path


def is_small(program: Program) -> bool:
    """Whether a program may be run on generated inputs, in float64 and in float32."""
    if any(isinstance(dim, int) and dim > 2**16 for value in program.inputs for dim in value.shape):
        return False
    return memory_needed(program, generated_inputs(program, 0))[0] <= MAX_RUN_BYTES


def require_readable(made: Report, folder: Path) -> None:
    """Raise `ValueError` unless the texts of a report can be read by what reads them."""
    require_tame(terminal.text(made))
    require_tame(str(made))
    json_report.write(made, folder / "r.json")
    json.loads((folder / "r.json").read_bytes())
    junit.write(made, folder / "r.xml")
    ElementTree.parse(folder / "r.xml")


def require_tame(text: str) -> None:
    """Raise `ValueError` for a text with characters that act on a terminal."""
    if any(not character.isprintable() and character not in "\n\t" for character in text):
        raise ValueError(f"a text acts on the terminal: {text[:2000]!r}")
