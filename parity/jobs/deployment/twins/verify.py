"""Is the model in this folder still the same network here?

    python verify.py [PROVIDER]

runs it in ONNX Runtime on the inputs in vectors.bin and compares the outputs with those of torch. It needs onnxruntime
alone (and NumPy, which that brings). PROVIDER is an execution provider, CPUExecutionProvider by default.
Exit code 0: the same. 1: another one. 2: it can't be run.
"""

import hashlib
import sys
import urllib.parse
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

Array = np.ndarray[Any, Any]
FOLDER = Path(__file__).parent
DTYPES = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool")


def main() -> None:
    """Run the model, print how far its outputs are from torch's, and exit."""
    provider = sys.argv[1] if len(sys.argv) > 1 else "CPUExecutionProvider"
    if provider not in onnxruntime.get_available_providers():
        sys.exit(say(f"onnxruntime has no {provider} here, but {', '.join(onnxruntime.get_available_providers())}"))
    model, inputs, outputs = read()
    try:
        options = onnxruntime.SessionOptions()
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        session = onnxruntime.InferenceSession(model, options, providers=[provider])
        results = session.run([name for name, _, _ in outputs], inputs)
    except Exception as error:  # whatever onnxruntime raises
        sys.exit(say(f"onnxruntime can't run the model: {error}"))
    print(f"onnxruntime {onnxruntime.__version__}, {', '.join(session.get_providers())}")
    if provider != "CPUExecutionProvider" and hasattr(session, "get_provider_graph_assignment_info"):
        print_fallback(session, provider)
    same = [compare(name, expected, bar, array) for (name, expected, bar), array in zip(outputs, results, strict=True)]
    print("the same network" if all(same) else "ANOTHER network")
    sys.exit(0 if all(same) else 1)


def print_fallback(session: Any, provider: str) -> None:
    """Print the nodes that another provider runs."""
    others = [subgraph for subgraph in session.get_provider_graph_assignment_info() if subgraph.ep_name != provider]
    for subgraph in others:
        nodes = [f"{node.op_type} {node.name!a}" for node in subgraph.get_nodes()]
        print(
            f"  {subgraph.ep_name} runs {len(nodes)} nodes: {', '.join(nodes[:20])}{', ...' if len(nodes) > 20 else ''}"
        )


def read() -> tuple[Any, dict[str, Array], list[tuple[str, Array, float]]]:
    """Return the model's bytes, the inputs by name, and name, array and bar of each output."""
    model, data = (FOLDER / "model.onnx").read_bytes(), (FOLDER / "vectors.bin").read_bytes()
    inputs: dict[str, Array] = {}
    outputs: list[tuple[str, Array, float]] = []
    kinds = set[str]()
    for line in (FOLDER / "vectors.txt").read_text(encoding="ascii").splitlines():
        kind, *words = line.split(" ")
        kinds.add(kind)
        if kind == "model" and words[0] != hashlib.sha256(model).hexdigest():
            sys.exit(say("model.onnx isn't the file that this folder was written with"))
        if kind == "data" and words[0] != hashlib.sha256(data).hexdigest():
            sys.exit(say("vectors.bin isn't the file that this folder was written with"))
        if kind in ("input", "output"):
            name, dtype, shape, start, size, *bar = words
            if dtype not in DTYPES:
                sys.exit(say(f"{dtype} isn't known"))
            sizes = [] if shape == "-" else [int(n) for n in shape.split("x")]
            flat = np.frombuffer(data[int(start) : int(start) + int(size)], dtype)
            name = urllib.parse.unquote(name)
            if kind == "input":
                inputs[name] = flat.reshape(sizes)
            else:
                outputs.append((name, flat.reshape(sizes), float(bar[0])))
    if missing := sorted({"model", "data", "output"} - kinds):
        sys.exit(say(f"vectors.txt is damaged: it has no line {missing[0]!r}"))
    if not all(0 <= bar < float("inf") for _, _, bar in outputs):
        sys.exit(say("vectors.txt is damaged: an output may differ by any amount"))
    model_or_path = model if not (FOLDER / "model.onnx.data").exists() else str(FOLDER / "model.onnx")
    return model_or_path, inputs, outputs


def compare(name: str, expected: Array, bar: float, actual: Any) -> bool:
    """Print the error of an output; return whether it is within the bar."""
    actual = np.asarray(actual)
    if actual.shape != expected.shape:
        print(f"  {name}: shape {list(actual.shape)}, needed {list(expected.shape)}")
        return False
    a, b = actual.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore"):
        off = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    worst = float(np.where(np.isnan(off), np.inf, off).max(initial=0.0))
    print(f"  {name}: error {worst:.3g}, up to {bar:.3g} passes{'' if worst <= bar else '  <-- FAILS'}")
    return worst <= bar


def say(message: str) -> int:
    """Print a message, and return the exit code."""
    print(f"error: {message}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
