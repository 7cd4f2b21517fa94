"""`write_bundle`: a folder with a model, inputs and outputs of torch, and programs that compare them where it runs.

The programs are the same in every bundle. What is of the model stands in `vectors.txt`, as data:

    model SHA256
    data SHA256
    input NAME DTYPE SHAPE START BYTES
    output NAME DTYPE SHAPE START BYTES BAR

Names are percent-encoded, shapes are `2x3`, or `-` for a scalar; numbers lie in `vectors.bin` from START on, in the
byte order of x86 and Arm, and an output may differ from them by BAR.
"""

from __future__ import annotations

import hashlib
import importlib.resources
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import numpy as np
import onnx

from ....recorder import library_versions
from ....runtime.errors import UsageError
from ....runtime.visible import visible_text
from ...sides.records import Array
from .errors import seconds_of_run

TWINS = ("verify.py", "verify.mjs", "verify.html", "vectors.mjs", "verify.cpp")
KNOWN = frozenset({"float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool"})
"""The dtypes that the programs know."""


@dataclass(frozen=True)
class Vector:
    """An input or output.

    Attributes:
        name: its name in the file.
        array: its value.
        bar: by how much an output may differ; 0 for an input.
    """

    name: str
    array: Array
    bar: float = 0.0


@dataclass(frozen=True)
class Verdict:
    """What the card says of the comparison with torch.

    Attributes:
        model: name of the model.
        sentence: the verdict in words.
        cells: number of Cells that were judged.
        dtype: what it computes in.
        bars: by how much outputs may differ, as a sentence.
        notes: remarks.
    """

    model: str
    sentence: str
    cells: int
    dtype: str
    bars: str = "An output may differ by ten times torch's own rounding error."
    notes: Sequence[str] = ()


def write_bundle(folder: Path, inputs: Sequence[Vector], outputs: Sequence[Vector], verdict: Verdict) -> None:
    """Add to a folder with `model.onnx` what proves that it is still the same where it runs.

    Args:
        folder: the folder.
        inputs: the inputs of a call.
        outputs: the outputs of torch.
        verdict: the comparison with torch.

    Raises:
        UsageError: a tensor has a dtype that the programs don't know.
    """
    for vector in (*inputs, *outputs):
        if vector.array.dtype.name not in KNOWN:
            raise UsageError(
                f"a bundle can't hold {visible_text(vector.name)}, which is {vector.array.dtype.name}; known are "
                f"{', '.join(sorted(KNOWN))}"
            )
    lines, data = [], bytearray()
    for kind, vectors in (("input", inputs), ("output", outputs)):
        for vector in vectors:
            content = (
                np.ascontiguousarray(vector.array).astype(vector.array.dtype.newbyteorder("<"), copy=False).tobytes()
            )
            data += b"\0" * (-len(data) % 8)
            shape = "x".join(map(str, vector.array.shape)) or "-"
            words = [
                kind,
                quote(vector.name, safe=""),
                vector.array.dtype.name,
                shape,
                str(len(data)),
                str(len(content)),
            ]
            lines.append(" ".join(words + ([f"{vector.bar!r}"] if kind == "output" else [])))
            data += content
    (folder / "vectors.bin").write_bytes(data)
    digests = [f"{kind} {_sha256(folder / name)}" for kind, name in (("model", "model.onnx"), ("data", "vectors.bin"))]
    (folder / "vectors.txt").write_text("\n".join([*digests, *lines]) + "\n", encoding="ascii")
    for name in TWINS:
        twin = importlib.resources.files(f"{__package__}.twins").joinpath(name)
        (folder / name).write_bytes(twin.read_bytes())
    (folder / "README.md").write_text(_card(folder, inputs, outputs, verdict), encoding="utf-8")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _card(folder: Path, inputs: Sequence[Vector], outputs: Sequence[Vector], verdict: Verdict) -> str:
    """Return the model card."""
    model = onnx.load(folder / "model.onnx", load_external_data=False)
    opset = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    size = sum(file.stat().st_size for file in folder.glob("model.onnx*"))
    versions = library_versions() | {"onnx": onnx.__version__}
    seconds = seconds_of_run(folder / "model.onnx", {vector.name: vector.array for vector in inputs})
    rows = [
        ("computes in", verdict.dtype),
        ("compared with torch", f"{verdict.sentence}, in {verdict.cells} Cells"),
        ("operator set", str(opset)),
        ("operators", f"{len(model.graph.node)}"),
        ("size", f"{size / 1e6:.3g} MB"),
        ("time of a call", f"{1000 * seconds:.3g} ms, in ONNX Runtime on the CPU that wrote this"),
        ("written with", ", ".join(f"{name} {version}" for name, version in versions.items())),
        ("on", sys.platform),
        *(("note", note) for note in verdict.notes),
    ]
    names = [("input", vector, "") for vector in inputs] + [
        ("output", vector, f"{vector.bar:.3g}") for vector in outputs
    ]
    table = "\n".join(f"| {name} | {_cell(text)} |" for name, text in rows)
    tensors = "\n".join(
        f"| {kind} | {_cell(vector.name)} | {vector.array.dtype.name} | {list(vector.array.shape)} | {bar} |"
        for kind, vector, bar in names
    )
    return f"""# {_cell(verdict.model)}

| | |
| --- | --- |
{table}

| | name | dtype | shape of the example | may differ by |
| --- | --- | --- | --- | --- |
{tensors}

Is it still the same network where it runs? Each of these needs ONNX Runtime alone, runs the model on the inputs in
`vectors.bin`, and compares the outputs with those of torch, which was run in float64. {verdict.bars}

    python verify.py CUDAExecutionProvider
    node verify.mjs cuda                 # npm install onnxruntime-node
    python -m http.server                # and open http://localhost:8000/verify.html; npm install onnxruntime-web
    g++ -std=c++17 -I$ONNXRUNTIME/include verify.cpp -L$ONNXRUNTIME/lib -lonnxruntime -o verify && ./verify

Exit code 0: the same network. 1: another one. 2: it can't be run.
"""


def _cell(text: str) -> str:
    """Return text for a cell of a Markdown table, in which nothing is markup."""
    return "".join(f"&#{ord(c)};" if c in "|<>&`*_[]()#\\!" else c for c in visible_text(text).replace("\n", " "))
