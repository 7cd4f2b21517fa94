"""A bundle says where it runs whether the model is still the same network.

The twins in JavaScript (in Node, and in a browser where there is Chromium) and C++ are tried where
CELLBRIDGE_NODE_MODULES names a folder with onnxruntime-node and onnxruntime-web, and CELLBRIDGE_ONNXRUNTIME one with
`include` and `lib`.
"""

from __future__ import annotations

import hashlib
import html
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import numpy_helper

from cellbridge.parity.cli import main
from cellbridge.parity.jobs.deployment import twins
from cellbridge.parity.jobs.deployment.bundle import Vector, Verdict, write_bundle
from cellbridge.runtime.errors import UsageError
from tests.parity.html.browser import served

NET = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.layer = nn.Embedding(10, 6), nn.Linear(6, 4)

    def forward(self, tokens, scale, keep):
        h = self.layer(self.table(tokens)) * scale
        return {"scores | <b>": h.masked_fill(~keep[..., None], 0.0), "best\\n": h.argmax(-1), "sum": h.sum()}


def model():
    return Net()


def inputs():
    return torch.tensor([[1, 2, 3]]), torch.tensor(0.5), torch.tensor([[True, False, True]])
"""
NODE = os.environ.get("CELLBRIDGE_NODE_MODULES")
CHROMIUM = shutil.which("chromium")
CPP = os.environ.get("CELLBRIDGE_ONNXRUNTIME")
TWINS = [
    "python",
    pytest.param("node", marks=pytest.mark.skipif(NODE is None, reason="CELLBRIDGE_NODE_MODULES isn't set")),
    pytest.param("wasm", marks=pytest.mark.skipif(NODE is None, reason="CELLBRIDGE_NODE_MODULES isn't set")),
    pytest.param(
        "browser",
        marks=pytest.mark.skipif(NODE is None or CHROMIUM is None, reason="no onnxruntime-web or no Chromium"),
    ),
    pytest.param("c++", marks=pytest.mark.skipif(CPP is None, reason="CELLBRIDGE_ONNXRUNTIME isn't set")),
]


def export(folder: Path, *options: str, text: str = NET) -> Result:
    (folder / "small.py").write_text(text)
    return CliRunner().invoke(main, ["export", str(folder / "small.py"), "--bundle", str(folder / "bundle"), *options])


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle")
    done = export(folder)
    assert done.exit_code == 0, done.output
    return folder / "bundle"


@pytest.fixture
def bundle(written: Path, tmp_path: Path) -> Path:
    shutil.copytree(written, tmp_path / "bundle")
    return tmp_path / "bundle"


def verify(bundle: Path, twin: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ)
    if twin == "python":
        command = [sys.executable, "-I", str(bundle / "verify.py"), *arguments]
    elif twin == "c++":
        program = bundle / "verify"
        places = [f"-I{CPP}/include", str(bundle / "verify.cpp"), f"-L{CPP}/lib", "-lonnxruntime", "-o", str(program)]
        subprocess.run(["g++", "-std=c++17", *places], check=True)
        environment["LD_LIBRARY_PATH"] = f"{CPP}/lib"
        command = [str(program), str(bundle)]
    elif twin == "browser":
        return verify_in_browser(bundle)
    else:
        (bundle / "node_modules").symlink_to(str(NODE))
        command = ["node", str(bundle / "verify.mjs"), *(["wasm"] if twin == "wasm" else [])]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def verify_in_browser(bundle: Path) -> subprocess.CompletedProcess[str]:
    """Open the page in a headless Chromium; the exit code is that of the other twins."""
    (bundle / "node_modules").symlink_to(str(NODE))
    with served(bundle) as server:
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=30000", "--dump-dom"]
        command = [str(CHROMIUM), *options, f"{server}/verify.html"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    title = re.search("<title>(.*)</title>", done.stdout)
    shown = re.search(r'<pre id="lines">(.*)</pre>', done.stdout, re.DOTALL)
    assert title is not None, done.stderr
    code = {"The same network": 0, "ANOTHER network": 1}.get(title[1], 2)
    text = html.unescape(shown[1] if shown else "") + title[1][0].lower() + title[1][1:]
    return subprocess.CompletedProcess([], code, text.replace("aNOTHER", "ANOTHER"), done.stderr)


def update_digests(bundle: Path) -> None:
    lines = (bundle / "vectors.txt").read_text().splitlines()
    for number, name in enumerate(("model.onnx", "vectors.bin")):
        lines[number] = f"{lines[number].split()[0]} {hashlib.sha256((bundle / name).read_bytes()).hexdigest()}"
    (bundle / "vectors.txt").write_text("\n".join(lines) + "\n")


def change_a_weight(bundle: Path) -> None:
    model = onnx.load(bundle / "model.onnx")
    tensor = next(t for t in model.graph.initializer if list(t.dims) in ([4], [4, 6], [6, 4]))
    array = numpy_helper.to_array(tensor).copy()
    array.flat[0] += 0.001
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    onnx.save(model, bundle / "model.onnx")


@pytest.mark.every(2)
@pytest.mark.parametrize("twin", TWINS)
def test_the_same_network(bundle: Path, twin: str) -> None:
    done = verify(bundle, twin)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.rstrip().endswith("the same network")
    assert done.stdout.count("passes") == 3


@pytest.mark.parametrize("twin", TWINS)
def test_a_changed_weight_is_another_network(bundle: Path, twin: str) -> None:
    change_a_weight(bundle)
    update_digests(bundle)
    done = verify(bundle, twin)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "<-- FAILS" in done.stdout
    assert done.stdout.rstrip().endswith("ANOTHER network")


@pytest.mark.parametrize("twin", TWINS)
def test_an_output_that_is_not_a_number_is_another_network(bundle: Path, twin: str) -> None:
    model = onnx.load(bundle / "model.onnx")
    for tensor in model.graph.initializer:
        if list(tensor.dims) == [10, 6]:
            array = np.full((10, 6), np.nan, np.float32)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    onnx.save(model, bundle / "model.onnx")
    update_digests(bundle)
    done = verify(bundle, twin)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "inf" in done.stdout.lower()


@pytest.mark.parametrize("file", ["model.onnx", "vectors.bin"])
def test_a_file_of_another_bundle_is_refused(bundle: Path, file: str) -> None:
    (bundle / file).write_bytes((bundle / file).read_bytes() + b"\0")
    done = verify(bundle, "python")
    assert done.returncode == 2
    assert f"{file} isn't the file that this folder was written with" in done.stderr


@pytest.mark.parametrize("kind", ["model", "data", "output"])
@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.every(3)
def test_every_line_is_needed(bundle: Path, twin: str, kind: str) -> None:
    lines = (bundle / "vectors.txt").read_text().splitlines()
    (bundle / "vectors.txt").write_text("".join(f"{line}\n" for line in lines if line.split()[0] != kind))
    done = verify(bundle, twin)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "the same network" not in done.stdout
    assert f"it has no line '{kind}'" in done.stdout + done.stderr


@pytest.mark.parametrize("bar", ["inf", "nan", "-1"])
@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.every(3)
def test_an_output_that_may_differ_by_any_amount_is_refused(bundle: Path, twin: str, bar: str) -> None:
    lines = (bundle / "vectors.txt").read_text().splitlines()
    lines = [" ".join([*line.split(" ")[:-1], bar]) if line.startswith("output") else line for line in lines]
    (bundle / "vectors.txt").write_text("\n".join(lines) + "\n")
    assert verify(bundle, twin).returncode == 2


@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
def test_the_digest_in_cpp_is_sha256(tmp_path: Path) -> None:
    text = (Path(twins.__file__).parent / "verify.cpp").read_text()
    function = text[text.index("static std::string sha256") : text.index("static std::string unquote")]
    sizes = [0, 1, 3, 55, 56, 63, 64, 65, 119, 120, 1000]
    (tmp_path / "main.cpp").write_text(
        "#include <algorithm>\n#include <cstdint>\n#include <iostream>\n#include <string>\n#include <vector>\n"
        f"{function}\nint main() {{ for (size_t n : {{{', '.join(map(str, sizes))}}}) {{\n"
        "std::vector<char> c; for (size_t i = 0; i < n; ++i) c.push_back(char(i * 37 % 251));\n"
        'std::cout << sha256(c) << "\\n"; } }\n'
    )
    subprocess.run(["g++", "-std=c++17", "main.cpp", "-o", "main"], check=True, cwd=tmp_path)
    done = subprocess.run([tmp_path / "main"], check=True, capture_output=True, text=True)
    contents = [bytes(i * 37 % 251 for i in range(n)) for n in sizes]
    assert done.stdout.split() == [hashlib.sha256(content).hexdigest() for content in contents]


def test_a_model_that_can_not_be_run(bundle: Path) -> None:
    (bundle / "model.onnx").write_bytes(b"no model")
    update_digests(bundle)
    done = verify(bundle, "python")
    assert done.returncode == 2
    assert "error: onnxruntime can't run the model" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_provider_that_is_not_there(bundle: Path) -> None:
    done = verify(bundle, "python", "NoExecutionProvider")
    assert done.returncode == 2
    assert "onnxruntime has no NoExecutionProvider here, but" in done.stderr


def test_names_are_data(written: Path) -> None:
    lines = (written / "vectors.txt").read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["model", "data", *["input"] * 3, *["output"] * 3]
    assert all(len(line.split(" ")) == (7 if line.startswith("output") else 6) for line in lines[2:])
    card = (written / "README.md").read_text()
    assert "<b>" not in card
    assert "scores &#124; &#60;b&#62;" in card


def test_integers_must_be_equal(written: Path) -> None:
    bars = {
        words[1]: float(words[6]) for words in map(str.split, (written / "vectors.txt").read_text().splitlines()[5:])
    }
    assert sorted(bar == 0 for bar in bars.values()) == [False, False, True]


@pytest.mark.slow
def test_half_precision(tmp_path: Path) -> None:
    done = export(tmp_path, "--fp16")
    assert done.exit_code == 0, done.output
    assert "float16" in (tmp_path / "bundle" / "vectors.txt").read_text()
    assert verify(tmp_path / "bundle", "python").returncode == 0


SEVERAL = """
import torch
from torch import nn


def model():
    return nn.Linear(40, 4)  # exact for zeros, so that the second inputs are the worst


def inputs():
    yield (torch.zeros(2, 40),)
    yield (torch.linspace(-3, 3, 80).reshape(2, 40),)
"""


def test_the_bars_are_those_of_the_first_inputs(tmp_path: Path) -> None:
    """The report keeps the worst comparison of several inputs: here, that of the second ones."""
    (tmp_path / "several.py").write_text(SEVERAL)
    done = CliRunner().invoke(main, ["export", str(tmp_path / "several.py"), "--bundle", str(tmp_path / "folder")])
    assert done.exit_code == 0, done.output
    assert (
        "the same network"
        in subprocess.run(
            [sys.executable, "-I", tmp_path / "folder" / "verify.py"], capture_output=True, text=True, check=True
        ).stdout
    )


def test_nothing_is_left_if_parity_fails(tmp_path: Path) -> None:
    text = """import torch
from torch import nn
from cellbridge.runtime import nn as ms

def model(): return nn.Sequential(nn.Linear(4, 3), nn.GELU())
def cell(): return ms.SequentialCell(ms.Dense(4, 3), ms.GELU())
def inputs(): return (torch.ones(2, 4),)
"""
    done = export(tmp_path, text=text)
    assert done.exit_code == 1, done.output
    assert not (tmp_path / "bundle").exists()


@pytest.mark.parametrize("options", [["--no-check"], ["--bf16"], ["--training-step"], ["-o", "x.onnx"]])
def test_what_a_bundle_does_not_hold(tmp_path: Path, options: list[str]) -> None:
    done = export(tmp_path, *options)
    assert done.exit_code == 2
    assert "bundle" in done.output
    assert not (tmp_path / "bundle").exists()


def test_neither_a_file_nor_a_folder(tmp_path: Path) -> None:
    (tmp_path / "small.py").write_text(NET)
    done = CliRunner().invoke(main, ["export", str(tmp_path / "small.py")])
    assert done.exit_code == 2
    assert "parity export needs -o FILE or --bundle FOLDER" in done.output


def test_a_dtype_that_the_twins_do_not_know(tmp_path: Path) -> None:
    vector = Vector("x", np.zeros(2, np.complex64))
    with pytest.raises(UsageError, match="can't hold x, which is complex64"):
        write_bundle(tmp_path, [vector], [], Verdict("net", "the same", 1, "float32"))
