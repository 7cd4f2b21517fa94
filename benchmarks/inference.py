"""Exported models in ONNX Runtime, against torch's own export of them and against eager torch.

    python -m benchmarks.inference SIDE MODEL FOLDER THREADS

runs one side (see `sides.serve`); FOLDER has the exported files, which the side `export` writes.
"""

from __future__ import annotations

import importlib.util
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .sides import ALIGNED, CELLS, Measurement, Side, compare, serve, verdict

TITLE = "Inference"
EXPLANATION = (
    "A model of fixtures/ written by `converter.to_onnx` and run by ONNX Runtime on the CPU in float32, against "
    "`torch.onnx.export(dynamo=True)`'s own file in the same ONNX Runtime, against our file in OpenVINO (in float32; "
    "only where it is installed), and against the module in eager torch and torch.compile under `no_grad`. Each side "
    "runs in its own process and waits while the other computes, with the number of threads with which it is faster. "
    "**Ratios are peer / ours: above 1, ours is faster.** *Nodes* are those of our file and torch's."
)
MODELS = (
    "decoder_lm",
    "lstm_classifier",
    "minilm",
    "resnet18",
    "transformer_encoder",
    "transformer_encoder_mha",
    "unet",
)
PEERS = {
    "torch.onnx": "torch.onnx.export",
    "openvino": "OpenVINO",
    "torch": "eager torch",
    "torch.compile": "torch.compile",
}
TARGETS = {"torch.onnx": 1.0}
MEAN_TARGETS = {"torch.onnx": 1.1, "torch": 1.2}
MODULE = "benchmarks.inference"


def measure(root: Path, models: Sequence[str], turns: int) -> str:
    """Return the table."""
    rows: list[str] = []
    peers = [peer for peer in PEERS if peer != "openvino" or importlib.util.find_spec("openvino")]
    measurements: dict[str, list[Measurement]] = {peer: [] for peer in peers}
    with tempfile.TemporaryDirectory() as folder:
        for model in models:
            Side(root, MODULE, ["export", model, folder], 2).end()
            nodes = (Path(folder) / f"{model}.nodes").read_text()
            for peer in peers:
                measurement = compare(root, MODULE, ["ours", model, folder], [peer, model, folder], turns)
                measurements[peer].append(measurement)
                rows.append(f"| {model} | {PEERS[peer]} | {measurement.cells(TARGETS.get(peer))} | {nodes} |")
                print(rows[-1], flush=True)
    for peer, of_peer in measurements.items():
        mean, target = statistics.geometric_mean(m.ratio for m in of_peer), MEAN_TARGETS.get(peer)
        met = verdict(mean, target)
        aim = "" if target is None else f"≥ {target:g}"
        rows.append(f"| geometric mean | {PEERS[peer]} | | | {mean:.2f} | | {aim} | {met} | | |")
    return "\n".join([f"| model | against | {CELLS} | nodes, ours and torch's |", f"|---|---|{ALIGNED}|---|", *rows])


# ---- in the process of a side ----


def tensors_of_model(model: str) -> tuple[Any, list[Any]]:
    """Return the model file, and the tensors among its inputs in order."""
    from torch.utils import _pytree as pytree

    from cellbridge.parity.inputs.model_file import load

    user_file = load(f"fixtures/{model}.py")
    leaves = pytree.tree_leaves((user_file.args, dict(user_file.kwargs)))
    return user_file, [leaf for leaf in leaves if hasattr(leaf, "numpy")]


def export_model(model: str, folder: str) -> Any:
    """Write a model as `MODEL.ours.onnx` to a folder, and return it."""
    from cellbridge.converter import from_torch, to_onnx

    user_file, _ = tensors_of_model(model)
    program = from_torch(user_file.module.eval(), user_file.args, user_file.kwargs)
    return to_onnx(program, Path(folder) / f"{model}.ours.onnx")


def _export(model: str, folder: str) -> None:
    import onnx
    import torch

    model_proto = export_model(model, folder)
    user_file, _ = tensors_of_model(model)
    module = user_file.module.eval()
    path = Path(folder) / f"{model}.torch.onnx"
    torch.onnx.export(module, user_file.args, str(path), kwargs=dict(user_file.kwargs), dynamo=True, verbose=False)
    counts = len(model_proto.graph.node), len(onnx.load(path, load_external_data=False).graph.node)
    (Path(folder) / f"{model}.nodes").write_text(f"{counts[0]}, {counts[1]}")


def _session(model: str, path: Path, threads: int) -> Callable[[], object]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    _, tensors = tensors_of_model(model)
    feeds = {node.name: x.numpy() for node, x in zip(session.get_inputs(), tensors, strict=True)}
    return lambda: session.run(None, feeds)


def _openvino(model: str, path: Path, threads: int) -> Callable[[], object]:
    import openvino

    hints = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    compiled = openvino.Core().compile_model(path, "CPU", hints)
    request = compiled.create_infer_request()
    _, tensors = tensors_of_model(model)
    feeds = {node.any_name: x.numpy() for node, x in zip(compiled.inputs, tensors, strict=True)}
    return lambda: request.infer(feeds)


def _torch(model: str, threads: int, compiled: bool) -> Callable[[], object]:
    import torch

    torch.set_num_threads(threads)
    user_file, _ = tensors_of_model(model)
    module = user_file.module.eval()
    run: Any = torch.compile(module) if compiled else module

    def step() -> None:
        with torch.no_grad():
            run(*user_file.args, **user_file.kwargs)

    return step


def _main(side: str, model: str, folder: str, threads: int) -> None:
    if side == "export":
        serve(lambda: lambda: _export(model, folder), threads)
    elif side in ("torch", "torch.compile"):
        serve(lambda: _torch(model, threads, side == "torch.compile"), threads)
    elif side == "openvino":
        serve(lambda: _openvino(model, Path(folder) / f"{model}.ours.onnx", threads), threads)
    else:
        file = "ours" if side == "ours" else "torch"
        serve(lambda: _session(model, Path(folder) / f"{model}.{file}.onnx", threads), threads)


if __name__ == "__main__":
    _main(*sys.argv[1:4], int(sys.argv[4]))
