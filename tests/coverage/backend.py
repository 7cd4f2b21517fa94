"""onnx's own backend tests, run through `from_onnx` and the interpreter."""

from __future__ import annotations

import fnmatch
import tomllib
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.backend.test.loader import load_model_tests

from cellbridge import converter
from cellbridge.converter.onnx_in.inputs import shapes_for_arrays
from cellbridge.runtime.ops.random import use_seed

GAPS = Path(__file__).with_name("backend_gaps.toml")
KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted")


@dataclass(frozen=True)
class Outcome:
    """The outcome of a test; `problem` is empty if it passed."""

    name: str
    problem: str


@cache
def cases() -> dict[str, Any]:
    """Return all tests by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # onnx computes its expected results with overflows and divisions by zero
        return {case.name: case for kind in KINDS for case in load_model_tests(kind=kind)}


def gaps() -> dict[str, str]:
    """Return the reasons by name, or glob of names, of tests that don't pass."""
    return tomllib.loads(GAPS.read_text())


def is_gap(name: str, known: dict[str, str]) -> bool:
    """Whether a gap names the test."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in known)


def disagreements(outcomes: Sequence[Outcome], known: dict[str, str]) -> list[str]:
    """Return how outcomes differ from what the gaps say."""
    wrong = [f"{o.name} fails: {o.problem}" for o in outcomes if o.problem and not is_gap(o.name, known)]
    for pattern in known:
        passing = [o for o in outcomes if not o.problem and fnmatch.fnmatchcase(o.name, pattern)]
        wrong += [f"{o.name} passes, the gap {pattern!r} says it doesn't" for o in passing]
    return wrong


def run(case: Any) -> Outcome:
    """Import the model of a test, run it on each of its data sets, and compare."""
    try:
        path = None if case.model is not None else Path(case.model_dir) / "model.onnx"
        graph = (case.model or onnx.load(str(path), load_external_data=False)).graph
        for inputs, expected in _data_sets(case):
            program = converter.from_onnx(path or case.model, shapes=_structure(graph, inputs))
            with use_seed(0):
                result = program(*inputs)
            problem = _difference(result if isinstance(result, tuple) else (result,), expected, case.rtol, case.atol)
            if problem:
                return Outcome(case.name, problem)
    except Exception as error:  # noqa: BLE001 - any exception is the outcome
        return Outcome(case.name, f"{type(error).__name__}: {error}")
    return Outcome(case.name, "")


def _structure(graph: onnx.GraphProto, inputs: list[Any]) -> Any:
    """Return the lengths of sequences, and which optionals aren't empty."""
    shapes = {}
    for info, given in zip(graph.input, inputs, strict=False):
        items = {f"{info.name}[{i}]": x for i, x in enumerate(given)} if isinstance(given, list) else {info.name: given}
        shapes |= {name: np.shape(x) for name, x in items.items() if x is not None}
    return shapes_for_arrays(graph, shapes)


def _data_sets(case: Any) -> Iterator[tuple[list[Any], list[Any]]]:
    if case.data_sets is not None:
        for inputs, outputs in case.data_sets:
            yield [_as_array(x) for x in inputs], [_as_array(x) for x in outputs]
        return
    graph = onnx.load(Path(case.model_dir) / "model.onnx").graph
    for folder in sorted(Path(case.model_dir).glob("test_data_set_*")):
        yield (
            [_read(path, info.type) for path, info in _files(folder, "input", graph.input) if path.exists()],
            [_read(path, info.type) for path, info in _files(folder, "output", graph.output)],
        )


def _files(folder: Path, kind: str, declared: Any) -> Iterator[tuple[Path, Any]]:
    return ((folder / f"{kind}_{i}.pb", info) for i, info in enumerate(declared))


def _as_array(value: Any) -> Any:
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _read(path: Path, declared: onnx.TypeProto) -> Any:
    data = path.read_bytes()
    if declared.HasField("sequence_type"):
        return onnx.numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if declared.HasField("optional_type"):
        return onnx.numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return onnx.numpy_helper.to_array(onnx.TensorProto.FromString(data))


def _difference(given: Any, expected: Any, rtol: float, atol: float) -> str:
    """Return the difference, by the rules of onnx's own runner; empty if there is none."""
    if isinstance(expected, (list, tuple)):
        if not isinstance(given, (list, tuple)) or len(given) != len(expected):
            return f"needed {len(expected)} values, given {given!r}"
        problems = [_difference(a, b, rtol, atol) for a, b in zip(given, expected, strict=True)]
        return next((problem for problem in problems if problem), "")
    needed = np.asarray(expected)
    if given.dtype != needed.dtype or given.shape != needed.shape:
        return f"needed {needed.dtype}{list(needed.shape)}, given {given.dtype}{list(given.shape)}"
    if needed.dtype.kind in "V" or needed.dtype.name.startswith(("float8", "bfloat16")):
        given, needed = given.astype(np.float32), needed.astype(np.float32)
    if needed.dtype.kind in "fc":
        same = np.allclose(given, needed, rtol=rtol, atol=atol, equal_nan=True)
    else:
        same = np.array_equal(given, needed)
    return "" if same else "the values differ"
