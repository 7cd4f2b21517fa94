"""Judging and exporting decoders of one and seven billion parameters in little memory.

    python -m benchmarks.out_of_core SIDE FOLDER

runs one side on the files in FOLDER: `write` makes the weights, `plain` runs the network forward and backward on its
mapped weights, `export` writes it to ONNX in float16, `base` imports what that imports, and `copy` copies the weights.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

from .tables import Row
from .whole_process import MEBIBYTE, usage

TITLE = "Networks larger than memory"
EXPLANATION = (
    "Decoders with random weights in bfloat16, in a safetensors file, and 16 tokens. *Judging* is `parity run "
    "--memory`, with outputs and gradients of all Cells: its memory, the peak of the whole process, is compared with "
    "what is allowed, its time with that of one pass forward and backward in torch on the same mapped weights. "
    "*Exporting* is `from_torch(..., checkpoint=)` and `to_onnx` in float16: its memory, above that of a process which "
    "only imports, is compared with two copies of the largest tensor, its time with that of copying as many bytes. "
    "Time and disk grow with the number of parameters: 70 billion take ten times what 7 billion take, 140 GB of disk "
    "for the weights, and with a head of 128,000 words and a width of 8,192 at least 45 GB of memory."
)
SIZES = {
    "quick": (0.02, "2GB", 256, 688, 4, 2, 1000),
    "1 billion": (1.0, "4GB", 2048, 5504, 16, 18, 32000),
    "7 billion": (6.7, "8GB", 4096, 11008, 32, 32, 32000),
}  # name: parameters in billions, memory, width, inner width, heads, blocks, words
MODEL_FILE = """from pathlib import Path

import torch
from benchmarks.large_decoder import decoder

checkpoint = "weights.safetensors"


def model():
    return decoder(Path(__file__).parent)


def inputs():
    return (torch.randint(0, {words}, (1, 16)),)
"""


def measure(root: Path, names: list[str]) -> list[Row]:
    """Return the rows, each measured once."""
    return [row for name in names for row in _rows(root, name)]


def _rows(root: Path, name: str) -> list[Row]:
    _, memory, *sizes = SIZES[name]
    allowed = float(memory.removesuffix("GB")) * 1e9 / MEBIBYTE
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        (folder / "sizes.json").write_text(json.dumps(sizes), encoding="utf-8")
        (folder / "large_model.py").write_text(MODEL_FILE.format(words=sizes[-1]), encoding="utf-8")
        sides = {side: [sys.executable, "-m", "benchmarks.out_of_core", side, str(folder)] for side in SIDES}
        usage(sides["write"], root)  # a process of its own: the peak of a parent counts as that of its children
        largest = int((folder / "largest").read_text(encoding="utf-8"))
        command = [sys.executable, "-m", "cellbridge.parity", "run", str(folder / "large_model.py")]
        judged = usage([*command, "--memory", memory, "--dtype", "bfloat16"], root)
        plain, exported, base, copied = (usage(sides[side], root) for side in ("plain", "export", "base", "copy"))
    two = 2 * largest / MEBIBYTE
    return [
        Row(name, f"judging, memory, of {memory}", "MiB", [judged.memory], [allowed], 1.0),
        Row(name, "judging, time", "s", [judged.seconds], [plain.seconds], None),
        Row(name, "exporting, memory above", "MiB", [exported.memory - base.memory], [two], 1.5),
        Row(name, "exporting, time", "s", [exported.seconds - base.seconds], [copied.seconds], None),
    ]


# ---- in the process of a side ----


def _write(folder: Path) -> None:
    from .large_decoder import write

    (folder / "largest").write_text(str(write(folder)), encoding="utf-8")


def _plain(folder: Path) -> None:
    import torch

    from cellbridge.converter.mapped_weights import map_weights

    from .large_decoder import decoder

    network = decoder(folder)
    map_weights(network, folder / "weights.safetensors")
    network.requires_grad_(requires_grad=False)
    network.embed.requires_grad_()  # the gradients of all parameters would take as much memory as these
    network(torch.randint(0, 100, (1, 16))).square().mean().backward()


def _base(folder: Path) -> None:
    import torch

    from cellbridge.converter import from_torch, to_onnx

    to_onnx(from_torch(torch.nn.Linear(4, 4), (torch.ones(1, 4),)), folder / "small.onnx")


def _export(folder: Path) -> None:
    import torch

    from cellbridge.converter import from_torch, to_onnx

    from .large_decoder import decoder

    network = decoder(folder).half()
    program = from_torch(network, (torch.randint(0, 100, (1, 16)),), checkpoint=folder / "weights.safetensors")
    to_onnx(program, folder / "model.onnx")
    (folder / "model.onnx.data").unlink(missing_ok=True)


def _copy(folder: Path) -> None:
    with (folder / "weights.safetensors").open("rb") as source, (folder / "copy").open("wb") as target:
        shutil.copyfileobj(source, target, 2**24)
    (folder / "copy").unlink()


SIDES = {"write": _write, "plain": _plain, "base": _base, "export": _export, "copy": _copy}

if __name__ == "__main__":
    SIDES[sys.argv[1]](Path(sys.argv[2]))
