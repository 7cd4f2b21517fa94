"""Two ONNX files are probed, too: faults of other values are found, and the same files pass."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx.parser
import pytest
from torch import nn

from cellbridge import converter
from cellbridge.parity.checking.onnx_files.compare import compare_onnx
from tests.parity.judging.probing.hidden_faults import FAULTS

NAMES = (
    "bound of ReLU6",
    "bound behind a norm",
    "large value of where",
    "greater, not greater or equal",
    "smallest norm",
    "softmax that overflows",
    "share of equal maxima",
    "nan_to_num left out",
    "last row of a table",
)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.every(6)
def test_a_hidden_fault_is_found_between_two_files(name: str, tmp_path: Path) -> None:
    right, wrong, args = FAULTS[name].pair()

    def file(name: str, module: nn.Module) -> str:
        converter.to_onnx(converter.from_torch(module, args), tmp_path / name)
        return str(tmp_path / name)

    first, second = file("right.onnx", right), file("wrong.onnx", wrong)
    assert compare_onnx(first, second, probe=False).ok, "the generated inputs hide it"
    same = compare_onnx(first, first)
    assert same.ok, str(same)
    assert len(same.probes) >= 5
    report = compare_onnx(first, second)
    assert report.failing == [FAULTS[name].cell]
    assert all(c.probe for cell in report.cells.values() for c in cell.failures)


@pytest.mark.parametrize(
    ("index", "is_right"),
    [("at = Abs(x)", False), ("less = Less(x, zero) more = Add(x, rows) at = Where(less, more, x)", True)],
)
def test_an_index_of_minus_1_is_the_last_row(index: str, is_right: bool, tmp_path: Path) -> None:
    files = [str(tmp_path / "reference.onnx"), str(tmp_path / "candidate.onnx")]
    for path, lines in zip(files, ("at = Identity(x)", index), strict=True):
        constants = "float[3, 2] table = {1, 2, 3, 4, 5, 6}, int64 zero = {0}, int64 rows = {3}"
        text = f"g (int64[N] x) => (float[N, 2] y) <{constants}> {{ {lines} y = Gather(table, at) }}"
        onnx.save(onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 20]> {text}'), path)
    report = compare_onnx(*files, diagnose_seconds=0)
    assert report.ok == is_right, str(report)
