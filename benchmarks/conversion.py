"""Conversion to ONNX against `torch.onnx.export(dynamo=True)`: nodes, time, and memory on top of the torch model.

    python -m benchmarks.conversion MODEL SIDE FOLDER

converts one model into a folder on one side, `ours` or `torch`, and prints nodes, seconds and MiB as JSON.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .tables import Row

if TYPE_CHECKING:
    import torch

TITLE = "Conversion to ONNX"
EXPLANATION = (
    "`to_onnx(from_torch(module, args, kwargs, copy=False), path, external_data=True)` against "
    "`torch.onnx.export(module, args, path, kwargs=kwargs, dynamo=True)`, each in its own process "
    "that has converted another, small model before. "
    "Nodes are those of the file; memory is the peak of the process minus its memory with the model built. "
    "ResNet-50 is timm's, BERT-base and the decoder of a billion parameters (LLaMA, 4 GB in float32) are "
    "transformers', with random weights."
)
FIXTURES = (
    "decoder_lm", "lstm_classifier", "minilm", "resnet18", "transformer_encoder", "transformer_encoder_mha", "unet",
)  # fmt: skip
LARGE = ("resnet50", "bert_base", "decoder_1b")
SIDES = ("ours", "torch")
MEBIBYTE = 2**20

Model = tuple["torch.nn.Module", tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Conversion:
    """The cost of one conversion.

    Attributes:
        nodes: number of nodes in the file.
        seconds: time from the module to the file.
        memory: peak MiB on top of the torch model.
    """

    nodes: int
    seconds: float
    memory: float


def measure(root: Path, models: tuple[str, ...], repetitions: int) -> list[Row]:
    """Return rows for these models, and the geometric mean of their nodes; the two sides take turns."""
    rows: list[Row] = []
    node_ratios: list[float] = []
    for model in models:
        print(f"measuring {model}: conversion", flush=True)
        turns = [[_in_a_process(root, model, side) for side in SIDES] for _ in range(repetitions)]
        cellbridge, peer = ([turn[i] for turn in turns] for i in range(2))
        rows += [
            Row(model, "nodes", "nodes", [c.nodes for c in cellbridge], [c.nodes for c in peer], None),
            Row(model, "conversion time", "s", [c.seconds for c in cellbridge], [c.seconds for c in peer], 1.0),
            Row(model, "conversion memory", "MiB", [c.memory for c in cellbridge], [c.memory for c in peer], 1.0),
        ]
        node_ratios.append(cellbridge[0].nodes / peer[0].nodes)
    mean = statistics.geometric_mean(node_ratios)
    return [*rows, Row("all of them", "nodes, geometric mean", "of the peer's", [mean], [1.0], 1.0)]


def _in_a_process(root: Path, model: str, side: str) -> Conversion:
    with tempfile.TemporaryDirectory(dir=root) as folder:  # on a disk, where files don't count as memory
        command = [sys.executable, "-m", "benchmarks.conversion", model, side, folder]
        process = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True, check=True)
    return Conversion(**json.loads(process.stdout.splitlines()[-1]))


def convert(model: str, side: str, folder: Path) -> Conversion:
    """Convert the model once."""
    import onnx

    warm_up(side, folder)
    module, args, kwargs = build(model)
    before = _memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak starts from here
    start = time.perf_counter()
    convert_by(side)((module, args, kwargs), folder / "model.onnx")
    seconds = time.perf_counter() - start
    peak = _memory("VmHWM")
    nodes = onnx.load(folder / "model.onnx", load_external_data=False).graph.node
    return Conversion(len(nodes), seconds, peak - before)


def convert_by(side: str) -> Callable[[Model, Path], None]:
    """Return the function that converts a model into a file on one of the `SIDES`."""
    return _cellbridge if side == "ours" else _torch


def warm_up(side: str, folder: Path) -> None:
    """Convert a small model, so that one-time work of a side isn't counted."""
    import torch

    layer = torch.nn.TransformerEncoderLayer(4, 1, 4).eval()
    convert_by(side)((layer, (torch.ones(2, 1, 4),), {}), folder / "warm.onnx")


def _cellbridge(model: Model, path: Path) -> None:
    from cellbridge.converter import from_torch, to_onnx

    module, args, kwargs = model
    to_onnx(from_torch(module, args, kwargs, copy=False), path, external_data=True)


def _torch(model: Model, path: Path) -> None:
    import torch

    module, args, kwargs = model
    torch.onnx.export(module, args, path, kwargs=kwargs, dynamo=True, verbose=False)


def build(name: str) -> Model:
    """Return a model in eval mode, and the arguments of its call."""
    import torch

    torch.manual_seed(0)
    if name in BUILDERS:
        module, args, kwargs = BUILDERS[name]()
    else:
        from cellbridge.parity.inputs.model_file import load

        user_file = load(f"fixtures/{name}.py")
        module, args, kwargs = user_file.module, user_file.args, user_file.kwargs
    return module.eval(), args, kwargs


def _resnet50() -> Model:
    import timm
    import torch

    return timm.create_model("resnet50"), (torch.randn(1, 3, 224, 224),), {}


def _bert_base() -> Model:
    import transformers

    return transformers.BertModel(transformers.BertConfig()), (), _tokens(128)


def _decoder_1b() -> Model:
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=32000, hidden_size=2048, intermediate_size=5632, num_hidden_layers=20, num_attention_heads=16,
        num_key_value_heads=8, use_cache=False,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config), (), _tokens(32)


def _tokens(length: int) -> dict[str, Any]:
    import torch

    ids = torch.randint(3, 1000, (1, length))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


BUILDERS: dict[str, Callable[[], Model]] = {"resnet50": _resnet50, "bert_base": _bert_base, "decoder_1b": _decoder_1b}


def _memory(entry: str) -> float:
    """MiB of this process's memory now (`VmRSS`), or at its peak (`VmHWM`)."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(entry):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"/proc/self/status has no {entry}: this is measured on Linux")


if __name__ == "__main__":
    from tests.coverage.torchvision_operators import declare

    declare()  # transformers and timm import torchvision, which may be built for another torch
    print(json.dumps(vars(convert(sys.argv[1], sys.argv[2], Path(sys.argv[3])))))
