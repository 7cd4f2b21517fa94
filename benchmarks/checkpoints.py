"""`parity checkpoint` on decoders of one and seven billion parameters, and on thousands of tensors of one shape.

    python -m benchmarks.checkpoints SIDE FOLDER

runs one side on the files in FOLDER: `write` and `write_many` make two checkpoints of the same weights, `hash` reads
both and computes a hash of each tensor.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from pathlib import Path

from .out_of_core import SIZES
from .tables import Row
from .whole_process import usage

TITLE = "Comparing checkpoints"
EXPLANATION = (
    "`parity checkpoint` of two safetensors files of one decoder in bfloat16: the second has other names, and the rows "
    "of queries and keys in another order. Its time, after that of reading both files and computing a SHA-256 of each "
    "tensor (which tells nothing of weights that moved), is compared with five minutes, and its peak memory with 2 GB. "
    "*Tensors of one shape*: n and 2n matrices of 32 x 32, each transposed and under another name."
)
SECONDS, MEBIBYTES, GROWTH = 300.0, 2e9 / 2**20, 2.5
BEFORE, AFTER = "weights.safetensors", "converted.safetensors"


def measure(root: Path, names: list[str], tensors: int) -> list[Row]:
    """Return the rows, each measured once.

    Args:
        root: the folder of the project.
        names: keys of `out_of_core.SIZES`.
        tensors: the smaller number of tensors of one shape.
    """
    return [row for name in names for row in _rows(root, name)] + [_growth(root, tensors)]


def _rows(root: Path, name: str) -> list[Row]:
    with tempfile.TemporaryDirectory() as path:
        _, _, *sizes = SIZES[name]
        (Path(path) / "sizes.json").write_text(json.dumps(sizes), encoding="utf-8")
        usage(_side("write", path), root)
        hashed, compared = usage(_side("hash", path), root), usage(_command(path), root)
    return [
        Row(name, "time beyond reading, of 5 minutes", "s", [compared.seconds - hashed.seconds], [SECONDS], 1.0),
        Row(name, "time, against hashes", "s", [compared.seconds], [hashed.seconds], None),
        Row(name, "memory, of 2 GB", "MiB", [compared.memory], [MEBIBYTES], 1.0),
    ]


def _growth(root: Path, tensors: int) -> Row:
    seconds = []
    for count in (tensors, 2 * tensors):
        with tempfile.TemporaryDirectory() as path:
            (Path(path) / "count").write_text(str(count), encoding="utf-8")
            usage(_side("write_many", path), root)
            seconds.append(usage(_command(path), root).seconds)
    small, large = seconds
    return Row("tensors of one shape", f"time, {2 * tensors} to {tensors}", "s", [large], [small], GROWTH)


def _side(side: str, folder: str) -> list[str]:
    return [sys.executable, "-m", "benchmarks.checkpoints", side, folder]


def _command(folder: str) -> list[str]:
    return [sys.executable, "-m", "cellbridge.parity", "checkpoint", f"{folder}/{BEFORE}", f"{folder}/{AFTER}"]


# ---- in the process of a side ----


def _write(folder: Path) -> None:
    import numpy as np

    from cellbridge.parity.weights.arrangements import Array
    from cellbridge.parity.weights.readers.opening import open_checkpoint
    from cellbridge.parity.weights.safetensors_writer import write_tensors

    from .large_decoder import write

    write(folder)
    heads = json.loads((folder / "sizes.json").read_text(encoding="utf-8"))[2]
    before = open_checkpoint(str(folder / BEFORE)).tensors
    name_of = {name.replace("layers.", "h.").replace("attention.", "attn.w"): name for name in before}

    def make(name: str) -> Array:
        array = before[name_of[name]].read()
        if name_of[name].endswith(("attention.q.weight", "attention.k.weight")):  # rotary halves, from interleaved ones
            array = array.reshape(heads, -1, 2, array.shape[1]).swapaxes(1, 2).reshape(array.shape)
        return np.ascontiguousarray(array)

    write_tensors(str(folder / AFTER), name_of, make)


def _write_many(folder: Path) -> None:
    import numpy as np
    from safetensors.numpy import save_file

    count = int((folder / "count").read_text(encoding="utf-8"))
    values = np.random.default_rng(0).normal(size=(count, 32, 32)).astype(np.float32)
    save_file({f"a.{n}.weight": value for n, value in enumerate(values)}, folder / BEFORE)
    save_file({f"b.{n}.kernel": np.ascontiguousarray(value.T) for n, value in enumerate(values)}, folder / AFTER)


def _hash(folder: Path) -> None:
    from cellbridge.parity.weights.readers.opening import open_checkpoint

    for name in (BEFORE, AFTER):
        for tensor in open_checkpoint(str(folder / name)).tensors.values():
            digest = hashlib.sha256()
            for _, rows in tensor.chunks():
                digest.update(rows.view("u1").data)
            print(tensor.name, digest.hexdigest())


SIDES = {"write": _write, "write_many": _write_many, "hash": _hash}

if __name__ == "__main__":
    SIDES[sys.argv[1]](Path(sys.argv[2]))
