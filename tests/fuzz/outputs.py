"""Fuzz targets for outputs: modules, source and reports from mutated ONNX files."""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Sequence
from pathlib import Path
from random import Random
from xml.etree import ElementTree

import numpy as np
import torch

from cellbridge.converter import from_onnx, to_cell_source, to_torch
from cellbridge.parity.checking.onnx_files.check import check_onnx
from cellbridge.parity.checking.onnx_files.compare import compare_onnx
from cellbridge.parity.inputs.affordable import peak_memory
from cellbridge.parity.inputs.onnx_inputs import generate_inputs
from cellbridge.parity.report import junit, terminal
from cellbridge.parity.report.formats import FORMATS
from cellbridge.parity.report.report import Report
from cellbridge.parity.sides.run import Run, Wanted
from cellbridge.parity.sides.torch_side import TorchSide
from cellbridge.runtime.errors import CellbridgeError
from cellbridge.runtime.ir.program import Program
from cellbridge.runtime.ops.higher_order.trips import limit_trips
from tests.fuzz.models import NAMES, backend_models, bases, mutate_model, typed_models

MAX_RUN_BYTES = 2**24  # bytes of a program that is run
MAX_TRIPS = 50
SHARE_OF_PAIRS = 1 / 4


def torch_module(random: Random, folder: Path) -> None:
    """Convert a mutated file to a module, run and print it, and write it as Cell source."""
    base = random.choice(bases() if random.random() < 0.4 else backend_models())
    program = from_onnx(_write_mutant(base, random, folder, "m.onnx"))
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
    inputs = tuple(torch.from_numpy(np.array(x)) for x in generate_inputs(program, 0) if x.dtype.isbuiltin == 1)
    if len(inputs) == len(program.inputs):
        with limit_trips(MAX_TRIPS):
            TorchSide("torch", module, inputs, {}).run(Run("float32", Wanted(random.random() < 0.5)))


def report(random: Random, folder: Path) -> None:
    """Report on a mutated file, or compare one with another file, as text, JSON and JUnit."""
    _report(random.choice(bases() if random.random() < 0.4 else backend_models()), bases(), random, folder)


def typed_report(random: Random, folder: Path) -> None:
    """Report on a mutated file of some dtype, or compare it with the file that it was made from."""
    base = random.choice(typed_models())
    _report(base, (base,), random, folder)


def _report(base: bytes, others: Sequence[bytes], random: Random, folder: Path) -> None:
    path = _write_mutant(base, random, folder, "m.onnx")
    program = from_onnx(path)
    if not is_small(program):
        return
    if random.random() < SHARE_OF_PAIRS:
        second_path = folder / "o.onnx"
        second_path.write_bytes(random.choice(others))
        result = compare_onnx(str(path), str(second_path))
    else:
        result = check_onnx(str(path), only=[random.choice(["", "*", *NAMES])] if random.random() < 0.2 else [])
    require_readable(result, folder)


def _write_mutant(base: bytes, random: Random, folder: Path, name: str) -> Path:
    path = folder / name
    path.write_bytes(mutate_model(base, random, folder).SerializeToString())
    return path


def has_small_inputs(program: Program) -> bool:
    """Whether inputs of a program can be generated within a mutant's memory."""
    return all(math.prod(dim for dim in value.shape if isinstance(dim, int)) <= 2**22 for value in program.inputs)


def is_small(program: Program) -> bool:
    """Whether a program may be run on generated inputs, in float64 and in float32."""
    if not has_small_inputs(program):
        return False
    return peak_memory(program, generate_inputs(program, 0))[0] <= MAX_RUN_BYTES


def require_readable(result: Report, folder: Path) -> None:
    """Raise `ValueError` unless a report's outputs can be parsed."""
    require_tame(terminal.text(result))
    require_tame(str(result))
    FORMATS["json"].write(result, str(folder / "r.json"))
    json.loads((folder / "r.json").read_bytes())
    junit.write(result, folder / "r.xml")
    ElementTree.parse(folder / "r.xml")


def require_tame(text: str) -> None:
    """Raise `ValueError` for a text with control characters."""
    if any(not character.isprintable() and character not in "\n\t" for character in text):
        raise ValueError(f"a text acts on the terminal: {text[:2000]!r}")
