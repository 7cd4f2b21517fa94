"""Fuzz targets: each writes a mutated file and reads it, as a user's command would."""

from __future__ import annotations

import functools
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from cellbridge.converter import from_onnx
from cellbridge.parity.inputs.affordable import peak_memory
from cellbridge.parity.inputs.onnx_inputs import generate_inputs, read_declared_inputs, session_inputs
from cellbridge.parity.weights.checkpoints import convert_checkpoint
from cellbridge.runtime import Parameter, Tensor, load, load_checkpoint, save_checkpoint
from cellbridge.runtime.compiled.isolated import IsolatedSession
from cellbridge.runtime.errors import CellbridgeError
from cellbridge.runtime.ir.program import Program
from cellbridge.runtime.ops.higher_order.trips import limit_trips
from cellbridge.runtime.programs.interpreter import execute
from cellbridge.runtime.programs.verify import verify
from tests.fuzz.models import backend_models, bases, mutate_model
from tests.fuzz.outputs import has_small_inputs, report, torch_module, typed_report
from tests.fuzz.quantized import quantized
from tests.fuzz.records import lock, recording, sweep_database
from tests.mutation import TEXTS, mutate_bytes, mutate_json
from tests.runtime.test_hostile_programs import example, pack, written

MAX_RUN_BYTES = 2**26  # bytes of a program that is run
MAX_TRIPS = 200
SHARE_OF_SESSIONS = 1 / 400  # a process each

Target = Callable[[Random, Path], None]


def onnx_file(random: Random, folder: Path) -> None:
    """Read, print and run a mutated ONNX file; rarely in ONNX Runtime too."""
    path = folder / "m.onnx"
    base = random.choice(bases() if random.random() < 0.4 else backend_models())
    data = mutate_model(base, random, folder).SerializeToString()
    path.write_bytes(mutate_bytes(data, random) if random.random() < 0.15 else data)
    in_session = random.random() < SHARE_OF_SESSIONS
    program = from_onnx(path)
    verify(program)
    str(program)
    inputs = _run(program)
    if in_session and inputs is not None:
        IsolatedSession(path, seconds=20).run(session_inputs(read_declared_inputs(str(path)), inputs))


def _run(program: Program) -> list[Any] | None:
    """Run a program on generated inputs if it is small."""
    if not has_small_inputs(program):
        return None
    inputs = generate_inputs(program, 0)
    if peak_memory(program, inputs)[0] <= MAX_RUN_BYTES:
        with limit_trips(MAX_TRIPS):
            execute(program, inputs)
    return inputs


def saved_program(random: Random, folder: Path) -> None:
    """Load and print a mutated saved program."""
    graph, tensors, whole = _saved_example()
    path = folder / "p.cell"
    if random.random() < 0.2:
        path.write_bytes(mutate_bytes(whole, random))
    else:
        pack(path, mutate_json(graph, random), mutate_bytes(tensors, random) if random.random() < 0.2 else tensors)
    program = load(path)
    verify(program)
    str(program)


@functools.cache
def _saved_example() -> tuple[Any, bytes, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "p.cell"
        return *written(example(), path), path.read_bytes()


def checkpoint(random: Random, folder: Path) -> None:
    """Load a mutated checkpoint of Cells."""
    path = folder / "c.ckpt"
    path.write_bytes(_mutate_safetensors(_checkpoints()[".ckpt"], random))
    try:
        load_checkpoint(path)
    except ValueError as error:
        if not str(error).startswith("For 'load_checkpoint'"):  # as MindSpore's are
            raise


def conversion(random: Random, folder: Path) -> None:
    """Convert a checkpoint of either side with a map, one of which is mutated."""
    kind = random.choice([".pt", ".safetensors", ".ckpt"])
    data = _checkpoints()[kind]
    lines = ['"fc." = "head."', '"norm.*.weight" = "norm.*.gamma"', '"fc.weight" = { to = "head.w", transpose = true }',
             '"n.q" = { to = ["n.a", "n.b"] }', '"step" = { drop = true }']  # fmt: skip
    text = "\n".join(random.sample(lines, random.randint(0, 5)))
    if random.random() < 0.5:
        data = _mutate_safetensors(data, random) if kind != ".pt" else mutate_bytes(data, random)
    else:
        text = _mutate_text(text, random)
    source, map_path = folder / f"s{kind}", folder / "map.toml"
    source.write_bytes(data)
    map_path.write_bytes(text.encode("utf-8", "surrogatepass"))
    target = folder / ("t.pt" if kind == ".ckpt" else "t.ckpt")
    convert_checkpoint(str(source), str(target), str(map_path))


def _mutate_text(text: str, random: Random) -> str:
    """Return text with characters, words or lines removed, repeated or replaced."""
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(text) + 1)
        piece = random.choice(
            [*TEXTS, "*", "*" * 20, '"', "=", "{", "}", "\n", "[", "]]", "\\u0000", "\ud800", "\x1b[2J"]
        )
        text = text[:at] + piece + text[at + random.randrange(5) :]
    return text


def _mutate_safetensors(data: bytes, random: Random) -> bytes:
    """Mutate the bytes or the header."""
    if random.random() < 0.4:
        return mutate_bytes(data, random)
    length = int.from_bytes(data[:8], "little")
    header = json.dumps(mutate_json(json.loads(data[8 : 8 + length]), random)).encode()
    return len(header).to_bytes(8, "little") + header + data[8 + length :]


@functools.cache
def _checkpoints() -> dict[str, bytes]:
    """Return the bytes of small checkpoints by suffix."""
    import torch
    from safetensors.torch import save_file

    values = {
        "fc.weight": torch.ones(2, 3),
        "norm.0.weight": torch.ones(3),
        "n.q": torch.ones(4),
        "step": torch.tensor(3),
    }
    arrays = {name: np.asarray(tensor) for name, tensor in values.items()}
    with tempfile.TemporaryDirectory() as folder:
        torch.save(values, f"{folder}/c.pt")
        save_file(values, f"{folder}/c.safetensors")
        items = [{"name": name, "data": Parameter(Tensor(array), name=name)} for name, array in arrays.items()]
        save_checkpoint(items, f"{folder}/c.ckpt", append_dict={"epoch": 3, "rate": 0.5, "note": "x"})
        return {ending: Path(f"{folder}/c{ending}").read_bytes() for ending in (".pt", ".safetensors", ".ckpt")}


def planted_faults(random: Random, folder: Path) -> None:
    """Raise faults that test the fuzzer itself."""
    import os
    import time

    match random.randrange(5):
        case 0:
            os.abort()
        case 1:
            while True:
                time.process_time()
        case 2:
            raise KeyError("planted")
        case 3:
            np.ones(2**31)
        case _:
            raise CellbridgeError("one of ours")


TARGETS: dict[str, tuple[Target, int]] = {
    "onnx": (onnx_file, 70), "cell": (saved_program, 15), "checkpoint": (checkpoint, 5), "conversion": (conversion, 10),
}  # fmt: skip
"""Targets by name, with their weights."""

LATER: dict[str, tuple[Target, int]] = {"torch": (torch_module, 80), "report": (report, 20)}
"""Targets added later, which replace others in a share of all mutants, so that other numbers stay valid."""
LATEST: dict[str, tuple[Target, int]] = {
    "typed": (typed_report, 60), "recording": (recording, 15), "lock": (lock, 10), "sweep": (sweep_database, 15),
}  # fmt: skip
"""Targets added after those."""
CHECKPOINTS: dict[str, tuple[Target, int]] = {"quantized": (quantized, 1)}
"""And after those."""
ADDED = {"later": (LATER, 0.1), "latest": (LATEST, 0.15), "checkpoints": (CHECKPOINTS, 0.05)}
"""The added targets, with their shares, the last ones first to be chosen."""
ALL = {**TARGETS, **LATER, **LATEST, **CHECKPOINTS}


def choose_target(source: Random, seed: int, number: int) -> str:
    """Return the name of a mutant's target, chosen by `source`."""
    chosen = _one_of(TARGETS, source)
    for tier, (targets, share) in ADDED.items():
        tier_random = Random(f"{seed}:{number}:{tier}")
        if tier_random.random() < share:
            chosen = _one_of(targets, tier_random)
    return chosen


def _one_of(targets: dict[str, tuple[Target, int]], source: Random) -> str:
    return source.choices(list(targets), [weight for _, weight in targets.values()])[0]
