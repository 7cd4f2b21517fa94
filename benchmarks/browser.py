"""A step of training in a browser, against the same file in ONNX Runtime on the CPU.

CELLBRIDGE_NODE_MODULES names a folder with onnxruntime-web; a Chromium is needed, too.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .tables import Row
from .whole_process import usage

TITLE = "Training in a browser"
EXPLANATION = (
    "The page of fixtures/browser, which trains LeNet (batch 32, SGD with momentum) in a headless Chromium by "
    "onnxruntime-web 1.30 in WebAssembly with one thread, against the same file in ONNX Runtime on the CPU with one "
    "thread: the median time of 20 steps."
)
MODULES = "CELLBRIDGE_NODE_MODULES"
FINISHED = """new Promise(done => { const timer = setInterval(() => {
    if (document.title !== 'Training ...') { clearInterval(timer); done(document.title) }
}, 50) })"""


def measure(root: Path, turns: int) -> list[Row]:
    """Return the rows; raise `RuntimeError` if there is no onnxruntime-web or no browser."""
    from tests.parity.html.browser import COMMAND

    if MODULES not in os.environ or COMMAND is None:
        raise RuntimeError(f"training in a browser needs Chromium, and {MODULES} with onnxruntime-web")
    page = root / "fixtures" / "browser"
    cellbridge, peer = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(page, folder, dirs_exist_ok=True)
        (folder / "node_modules").symlink_to(os.environ[MODULES])
        export = ["export", "lenet.py", "--training-step", "--separate-state", "--no-check", "-o", "step.onnx"]
        options = ["--optimizer", "momentum", "--lr", "0.05"]
        usage([sys.executable, "-m", "cellbridge.parity", *export, *options], folder)
        usage([sys.executable, "lenet.py"], folder)
        for _ in range(turns):
            cellbridge.append(_in_browser(folder))
            peer.append(_on_cpu(folder))
    return [Row("LeNet", "a step", "ms", cellbridge, peer, None)]


def _in_browser(folder: Path) -> float:
    """Milliseconds of a step."""
    from tests.parity.html.browser import browser, served

    with served(folder) as address, browser() as chromium:
        chromium.open(f"{address}/train.html")
        if chromium.run(FINISHED) != "Trained":
            raise RuntimeError(chromium.run("document.getElementById('status').textContent"))
        return float(chromium.run("training.median"))


def _on_cpu(folder: Path) -> float:
    """Milliseconds of a step, in a process of its own: this one doesn't import NumPy."""
    command = [sys.executable, "-m", "benchmarks.browser", str(folder)]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=True)
    return float(done.stdout.splitlines()[-1])


def _steps(folder: Path) -> float:
    import onnxruntime
    from safetensors.numpy import load_file

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(folder / "step.onnx", options, providers=["CPUExecutionProvider"])
    state, batches = load_file(folder / "step.safetensors"), load_file(folder / "batches.safetensors")
    names = [output.name for output in session.get_outputs()]
    times = []
    for step in range(len(batches["classes"])):
        feeds = state | {name: array[step] for name, array in batches.items()}
        start = time.perf_counter()
        results = dict(zip(names, session.run(None, feeds), strict=True))
        times.append(time.perf_counter() - start)
        state = {name: results.get(f"update.{name}", array) for name, array in state.items()}
    return statistics.median(times) * 1e3


if __name__ == "__main__":
    print(_steps(Path(sys.argv[1])))
