"""A file and what an optimizer made of it: Cells whose values have another order or place aren't called wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

from cellbridge.parity.checking.onnx_files.compare import compare_onnx
from cellbridge.parity.report.report import Report

NODES = {
    "first": "h = MatMul (x, u)",
    "/block/MatMul": "m = MatMul (h, v)",
    "/block/Transpose": "t = Transpose <perm = [0, 2, 1]> (m)",
    "/block/Tanh": "s = Tanh (t)",
    "/block/Neg": "n = Neg (h)",
    "/act/Relu": "r = Relu (s)",
    "/head/MatMul": "p = MatMul (r, w)",
    "last": "y = Add (p, n)",
}
TWO_RESULTS_EXCHANGED = ["first", "/block/Neg", "/block/MatMul", "/block/Transpose", "/block/Tanh", *list(NODES)[5:]]
GENERATOR = np.random.default_rng(0)
WEIGHTS = {name: GENERATOR.standard_normal((4, 4)).astype(np.float32) for name in "uvw"}


def written(path: Path, nodes: dict[str, str], **changed: np.ndarray[Any, Any]) -> str:
    graph = f"net (float[n, 4, 4] x) => (float[n, 4, 4] y) {{ {' '.join(nodes.values())} }}"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {graph}')
    for node, name in zip(model.graph.node, nodes, strict=True):
        node.name = name
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in (WEIGHTS | changed).items())
    onnx.save(model, path)
    return str(path)


def moved() -> dict[str, str]:
    """The transposition is pushed through the next Cells, as ONNX Runtime does it."""
    nodes = {}
    for name, text in NODES.items():
        if name == "/block/Transpose":
            continue
        if name == "/head/MatMul":
            nodes["/head/Transpose"] = "r = Transpose <perm = [0, 2, 1]> (q)"
        nodes[name] = {"/block/Tanh": "s = Tanh (m)", "/act/Relu": "q = Relu (s)"}.get(name, text)
    return nodes


def compare(folder: Path, nodes: dict[str, str], **changed: np.ndarray[Any, Any]) -> Report:
    return compare_onnx(written(folder / "a.onnx", NODES), written(folder / "b.onnx", nodes, **changed))


def exchanged() -> dict[str, str]:
    return {name: NODES[name] for name in TWO_RESULTS_EXCHANGED}


def test_results_of_a_cell_in_another_order(tmp_path: Path) -> None:
    report = compare(tmp_path, exchanged())
    assert report.ok
    assert {"block", "act", "head"} <= {path for path, cell in report.cells.items() if cell.comparisons}


def test_a_cell_that_ends_elsewhere(tmp_path: Path) -> None:
    report = compare(tmp_path, moved())
    assert report.ok
    assert any("block, act and head begin or end at other places" in note for note in report.notes)


@pytest.mark.parametrize(("weight", "failing"), [("v", "block"), ("w", "head")])
@pytest.mark.every(2)
def test_a_fault_in_a_sorted_file_is_placed(tmp_path: Path, weight: str, failing: str) -> None:
    assert compare(tmp_path, exchanged(), **{weight: WEIGHTS[weight] * np.float32(1.01)}).failing == [failing]


@pytest.mark.parametrize("weight", ["u", "v", "w"])
@pytest.mark.every(3)
def test_a_fault_in_a_file_with_moved_nodes_fails(tmp_path: Path, weight: str) -> None:
    assert compare(tmp_path, moved(), **{weight: WEIGHTS[weight] * np.float32(1.01)}).failed
