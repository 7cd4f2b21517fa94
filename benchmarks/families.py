"""Nodes and conversion time against `torch.onnx.export(dynamo=True)` over whole families of models.

    python -m benchmarks.families MODULE COUNT

converts up to COUNT models of a module of `tests/coverage/family_cases` on each side, and prints a line of JSON for
each.
"""

from __future__ import annotations

import importlib
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import conversion
from .tables import Row

if TYPE_CHECKING:
    from tests.coverage.family_cases.case import Case

TITLE = "Families of models to ONNX"
EXPLANATION = (
    "Models of `tests/coverage/family_cases`, up to 30 of each module, evenly spread, small and in eval mode, "
    "converted once by `to_onnx(from_torch(...))` and once by `torch.onnx.export(dynamo=True)`, in one process per "
    "module of cases, in alternating order. Ratios are geometric means over the models that both convert; the first "
    "column says how many of them that are."
)
MODULES = (
    "text_encoders", "decoders", "encoder_decoders", "mixtures", "state_spaces", "vision", "convolutional",
    "detection", "speech", "contrastive", "diffusion", "others",
)  # fmt: skip
TARGETS = {"nodes": 1.0, "converting time": 0.35}
MAX_MODELS = 30  # per module


def measure(root: Path, modules: Sequence[str], count: int = MAX_MODELS) -> list[Row]:
    """Return rows for the families of these modules, up to `count` models each, and for all of them."""
    models: list[dict[str, Any]] = []
    for module in modules:
        print(f"measuring {module}: families", flush=True)
        command = [sys.executable, "-m", "benchmarks.families", module, str(count)]
        process = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True, check=True)
        models += [json.loads(line) for line in process.stdout.splitlines() if line.startswith('{"case"')]
    families = list(dict.fromkeys(model["family"] for model in models))
    rows = [row for family in families for row in _rows(family, [m for m in models if m["family"] == family])]
    return [*rows, *_rows("all", models)]


def _rows(name: str, models: list[dict[str, Any]]) -> list[Row]:
    both = [model for model in models if model["ours"] and model["torch"]]
    label = f"{name}: {len(both)} of {len(models)}"
    if not both:
        return []
    means = [statistics.geometric_mean(m["ours"][i] / m["torch"][i] for m in both) for i in range(2)]
    return [
        Row(label, quantity, "of the peer's", [mean], [1.0], TARGETS[quantity] if name == "all" else None)
        for quantity, mean in zip(TARGETS, means, strict=True)
    ]


def convert(case: Case, side: str) -> tuple[int, float] | None:
    """Return nodes and seconds of one conversion; None if the side refuses the model."""
    import onnx
    import torch

    from cellbridge.runtime.errors import CellbridgeError

    convert_by = conversion.convert_by(side)
    torch.manual_seed(0)
    module, args, kwargs = case.build()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        start = time.perf_counter()
        try:
            convert_by((module.eval(), args, kwargs), path)
        except (CellbridgeError, torch.onnx.OnnxExporterError) as reason:
            print(f"{case.name}: {side} refuses it: {str(reason)[:200]}", file=sys.stderr)
            return None
        seconds = time.perf_counter() - start
        return len(onnx.load(path, load_external_data=False).graph.node), seconds


def select_cases(module: str, count: int) -> list[Case]:
    """Return up to `count` cases of a module, evenly spread."""
    cases: list[Case] = importlib.import_module(f"tests.coverage.family_cases.{module}").CASES
    return cases[:: math.ceil(len(cases) / count)]


def main(module: str, count: int) -> None:
    from tests.coverage.torchvision_operators import declare

    declare()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        for side in conversion.SIDES:
            conversion.warm_up(side, Path(folder))
    for number, case in enumerate(select_cases(module, count)):
        order = conversion.SIDES if number % 2 else conversion.SIDES[::-1]
        costs = {side: convert(case, side) for side in order}
        print(json.dumps({"case": case.name, "family": case.family, **costs}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
