"""On one GPU: training steps, and exported models in ONNX Runtime, against torch on the same card.

    python -m benchmarks.gpu KIND SIDE NAME FOLDER THREADS

runs one side (see `sides.serve`) of "training" or "inference"; FOLDER has the captured programs and exported files,
which the side `prepare` writes.
"""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .inference import export_model, tensors_of_model
from .sides import ALIGNED, CELLS, Measurement, Side, serve, steps_of_a_turn
from .training_networks import NETWORKS, batch, our_optimizer, torch_network, torch_optimizer
from .training_step import capture_network

TRAINING = "Training steps on a GPU"
OF_TRAINING = (
    "The networks of *Training steps*, compiled for ONNX Runtime's CUDA provider, against torch on the same card, in "
    "float32 without TF32. Our batch starts in the CPU's memory at each step, torch's lies on the card. "
    "**Ratios are peer / ours: above 1, ours is faster.**"
)
INFERENCE = "Inference on a GPU"
OF_INFERENCE = (
    "Models of fixtures/ written by `converter.to_onnx`, in ONNX Runtime's CUDA provider, in float32 without TF32. "
    "Inputs and outputs are bound to memory on the card; *graph* captures the whole run as one CUDA graph; *TensorRT* "
    "is ONNX Runtime's provider of that name. Against torch on the same card, under `no_grad`. "
    "**Ratios are peer / ours: above 1, ours is faster.**"
)
TF32 = "TF32 on a GPU"
OF_TF32 = (
    "The same files with and without TF32, in which the card multiplies float32 matrices with mantissas of 10 bits, "
    "and what parity says of ONNX Runtime's results there. cellbridge runs without it."
)
MODELS = ("decoder_lm", "lstm_classifier", "resnet18", "transformer_encoder", "unet")
PEERS = {"torch": "eager torch", "torch.compile": "torch.compile"}
OURS = {"ours": "bound", "graph": "bound, graph", "tensorrt": "bound, TensorRT"}
THREADS = 4
MODULE = "benchmarks.gpu"
Timed = tuple[list[float], float, float]
"""The seconds of a step in each turn, those until the end of the first step, and bytes of memory."""


def device(root: Path) -> str:
    """Return the name of the GPU and of its driver, as a sentence; empty if torch or ONNX Runtime can't use one."""
    code = (
        "import torch, onnxruntime, sys\n"
        "sys.exit(not (torch.cuda.is_available() and 'CUDAExecutionProvider' in onnxruntime.get_available_providers()))"
    )
    if subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, check=False).returncode:
        return ""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    name, driver = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()[0].split(", ")
    return f"On one {name}, driver {driver}."


def training(root: Path, networks: Sequence[str], turns: int) -> str:
    """Return the table of training steps."""
    rows = [row for name in networks for row in _rows(root, "training", name, {"ours": NETWORKS[name]}, turns)]
    return "\n".join([f"| network | against | {CELLS} |", f"|---|---|{ALIGNED}|", *rows])


def inference(root: Path, models: Sequence[str], turns: int) -> str:
    """Return the table of exported models."""
    first_cells = {name: {side: f"{name} | {how}" for side, how in OURS.items()} for name in models}
    rows = [row for name in models for row in _rows(root, "inference", name, first_cells[name], turns)]
    return "\n".join([f"| model | ours | against | {CELLS} |", f"|---|---|---|{ALIGNED}|", *rows])


def tf32(root: Path, models: Sequence[str], turns: int) -> str:
    """Return the table of files with and without TF32."""
    rows = []
    for name in models:
        times = _take_turns(root, "inference", ["tf32", "ours"], name, turns)
        without, with_it = (_verdict(root, name, use) for use in ("0", "1"))
        rows.append(f"| {name} | {_cells(times, 'tf32', 'ours')} {without} | {with_it} |")
        print(rows[-1], flush=True)
    cells = CELLS.replace("ours | peer | peer / ours", "with TF32 | without | without / with")
    return "\n".join([f"| model | {cells} | parity without | parity with |", f"|---|{ALIGNED}|---|---|", *rows])


def _rows(root: Path, kind: str, name: str, first_cells: Mapping[str, str], turns: int) -> Iterator[str]:
    """Yield and print a row for each of our sides, whose first cells are given, against each peer."""
    times = _take_turns(root, kind, [*first_cells, *PEERS], name, turns)
    for side, first in first_cells.items():
        for peer, words in PEERS.items():
            row = f"| {first} | {words} | {_cells(times, side, peer)}"
            print(row, flush=True)
            yield row


def _take_turns(root: Path, kind: str, names: Sequence[str], network: str, turns: int) -> dict[str, Timed]:
    """Let sides take turns, each in its own process; those that don't run here are left out."""
    with tempfile.TemporaryDirectory() as folder:
        Side(root, MODULE, [kind, "prepare", network, folder], THREADS).end()
        sides: dict[str, Side] = {}
        times: dict[str, list[float]] = {}
        try:
            for name in names:
                with contextlib.suppress(RuntimeError):
                    sides[name] = Side(root, MODULE, [kind, name, network, folder], THREADS)
            counts = {name: steps_of_a_turn(side) for name, side in sides.items()}
            for _ in range(turns):
                for name, side in sides.items():
                    times.setdefault(name, []).append(statistics.median(side.ask(counts[name])))
            return {name: (times[name], side.begin, side.ask("memory")) for name, side in sides.items()}
        finally:
            for side in sides.values():
                side.end()


def _cells(times: Mapping[str, Timed], side: str, peer: str) -> str:
    """Return the cells of a row; for a side that doesn't run, that it doesn't."""
    if side not in times or peer not in times:
        which = "ours" if side not in times else "the peer"
        return f"{which} doesn't run here | | | | | | |"
    (own_times, begin, memory), (peer_times, peer_begin, peer_memory) = times[side], times[peer]
    measured = Measurement(own_times, peer_times, (begin, peer_begin), (memory, peer_memory), (THREADS, THREADS))
    return f"{measured.cells(None)} |"


def _verdict(root: Path, name: str, use_tf32: str) -> str:
    """Return what parity says of ONNX Runtime's results on the card."""
    done = subprocess.run(
        [sys.executable, "-m", MODULE, "verdict", use_tf32, name, "", "2"],
        cwd=root, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip().splitlines()[-1]


# ---- in the process of a side ----


def _train(name: str, folder: str) -> Callable[[], object]:
    import cellbridge.runtime as ms

    x, y = batch(name)
    program = ms.load(Path(folder) / name)
    step = ms.compile_train_step(program, ms.nn.CrossEntropyLoss(), lambda p: our_optimizer(name, p), provider="cuda")
    return lambda: step(x, y)


def _train_torch(name: str, compiled: bool) -> Callable[[], object]:
    import torch

    _without_tf32()
    network = torch_network(name).cuda()
    optimizer = torch_optimizer(name, network.parameters())
    x, y = (torch.from_numpy(array).cuda() for array in batch(name))
    run: Any = torch.compile(network) if compiled else network

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(run(x), y).backward()
        optimizer.step()
        torch.cuda.synchronize()

    return step


def _infer_torch(name: str, compiled: bool) -> Callable[[], object]:
    import torch
    from torch.utils import _pytree as pytree

    _without_tf32()
    user_file, _ = tensors_of_model(name)
    module = user_file.module.eval().cuda()
    args, kwargs = pytree.tree_map_only(torch.Tensor, lambda x: x.cuda(), (user_file.args, dict(user_file.kwargs)))
    run: Any = torch.compile(module) if compiled else module

    def step() -> None:
        with torch.no_grad():
            run(*args, **kwargs)
        torch.cuda.synchronize()

    return step


def _infer(name: str, folder: str, side: str) -> Callable[[], object]:
    import onnxruntime

    path = Path(folder) / f"{name}.ours.onnx"
    options = {"use_tf32": "1" if side == "tf32" else "0"} | ({"enable_cuda_graph": "1"} if side == "graph" else {})
    providers: list[Any] = [("CUDAExecutionProvider", options), "CPUExecutionProvider"]
    needed = "CUDAExecutionProvider"
    if side == "tensorrt":
        needed = "TensorrtExecutionProvider"
        providers.insert(0, needed)
    _, tensors = tensors_of_model(name)
    on_cpu = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    feeds = {node.name: x.numpy() for node, x in zip(on_cpu.get_inputs(), tensors, strict=True)}
    results = dict(zip((node.name for node in on_cpu.get_outputs()), on_cpu.run(None, feeds), strict=True))
    session = onnxruntime.InferenceSession(path, providers=providers)
    if needed not in session.get_providers():
        raise RuntimeError(f"ONNX Runtime has no {needed} here")
    binding = session.io_binding()
    on_card = {
        node: onnxruntime.OrtValue.ortvalue_from_numpy(array, "cuda", 0) for node, array in (feeds | results).items()
    }
    for node in feeds:
        binding.bind_ortvalue_input(node, on_card[node])
    for node in results:
        binding.bind_ortvalue_output(node, on_card[node])

    def step() -> object:
        session.run_with_iobinding(binding)
        return on_card

    return step


def _judge(name: str, use_tf32: str) -> None:
    """Print what parity says of ONNX Runtime's results on the card, with the largest error in units of torch's own."""
    from cellbridge import parity
    from cellbridge.runtime import providers

    providers.PROVIDERS["cuda"].options["use_tf32"] = use_tf32
    user_file, _ = tensors_of_model(name)
    report = parity.check(
        user_file.module.eval(), user_file.args, user_file.kwargs, sides=["onnxruntime"], grads=False, provider="cuda"
    )
    worst = max((c.ratio for cell in report.cells.values() for c in cell.comparisons), default=0.0)
    print(f"{'holds' if report.ok else 'fails'} ({worst:.2g}×)")


def _without_tf32() -> None:
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False


def _prepare(kind: str, name: str, folder: str) -> None:
    if kind == "training":
        capture_network(name, folder)
    else:
        export_model(name, folder)


def _step(kind: str, side: str, name: str, folder: str) -> Callable[[], object]:
    if side == "prepare":
        return lambda: _prepare(kind, name, folder)
    if kind == "training":
        return _train(name, folder) if side == "ours" else _train_torch(name, side == "torch.compile")
    return _infer_torch(name, side == "torch.compile") if side in PEERS else _infer(name, folder, side)


def _main(kind: str, side: str, name: str, folder: str, threads: int) -> None:
    if kind == "verdict":
        _judge(name, side)
    else:
        serve(lambda: _step(kind, side, name, folder), threads)


if __name__ == "__main__":
    _main(*sys.argv[1:5], int(sys.argv[5]))
