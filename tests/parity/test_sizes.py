"""Networks with dynamic dimensions are compared at sizes other than those of the example inputs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from cellbridge import converter, parity
from cellbridge.parity.checking.onnx_files.compare import compare_onnx
from cellbridge.parity.inputs.sizes import format_sizes, numbers_in, other_sizes, resize
from cellbridge.runtime.errors import UsageError


class Mean(nn.Module):
    """With `frozen`, divides by the number of rows that the example has: what a capture that froze it would do."""

    def __init__(self, frozen: bool = False) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.frozen = frozen

    def forward(self, x: Tensor) -> Tensor:
        rows = 4 if self.frozen and torch.compiler.is_exporting() else x.shape[0]
        return self.linear(x).sum(0) / rows


def test_a_network_is_judged_at_other_sizes() -> None:
    report = parity.check(Mean(), (torch.randn(4, 4),), dynamic_shapes=({0: "rows"},))
    assert report.ok
    assert report.sizes == ["rows=1", "rows=5"]
    assert "compared also at rows=1; and at rows=5" in str(report)
    assert {c.sizes for cell in report.cells.values() for c in cell.comparisons} == {"", "rows=1", "rows=5"}
    assert report.to_dict()["sizes"] == report.sizes


def test_a_frozen_size_is_caught() -> None:
    report = parity.check(Mean(frozen=True), (torch.randn(4, 4),), dynamic_shapes=({0: "rows"},))
    assert not report.ok
    assert report.failing == [""]
    assert all(c.sizes for c in report.cells[""].failures)
    assert "at rows=1" in str(report)


def test_sizes_that_torch_does_not_take_are_noted() -> None:
    class Needs(Mean):
        def forward(self, x: Tensor) -> Tensor:
            if x.shape[0] == 1 and not torch.compiler.is_exporting():
                raise ValueError("one row has no variance")
            return super().forward(x)

    report = parity.check(Needs(), (torch.randn(4, 4),), dynamic_shapes=({0: "rows"},))
    assert report.ok
    assert report.sizes == ["rows=5"]
    assert any(note.startswith("not compared at rows=1: the model doesn't run") for note in report.notes)
    report = parity.check(Needs(), (torch.randn(4, 4),), dynamic_shapes=({0: torch.export.Dim("rows", min=2, max=6)},))
    assert report.sizes == ["rows=2", "rows=5"]


def test_each_dimension_has_a_size_of_its_own() -> None:
    module = nn.Bilinear(3, 3, 2)
    rows = torch.export.Dim("rows", max=6)
    args = (torch.randn(5, 5, 3), torch.randn(5, 5, 3))
    shapes = ({0: rows, 1: "columns"}, {0: rows, 1: "columns"})
    program = converter.from_torch(module, args, dynamic_shapes=shapes)
    sizes = other_sizes(program, list(args), shapes)
    assert sizes == [{"columns": 1, "rows": 1}, {"columns": 7, "rows": 1}]
    (x, y), _ = resize(program, args, {}, sizes[1])
    assert x.shape == y.shape == (1, 7, 3)
    assert torch.equal(x[0, 5], args[0][0, 0])
    assert format_sizes(sizes[1]) == "columns=7, rows=1"


class Cut(nn.Module):
    """Takes as many columns as it was made for: more are cut off, where the original takes them all."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.most = most

    def forward(self, x: Tensor) -> Tensor:
        if torch.compiler.is_exporting():
            x = x * (torch.arange(x.shape[1]) < self.most)[:, None]
        return self.linear(x).sum(1)


@pytest.mark.parametrize("most", [5, 7, 12, 64, 100])
@pytest.mark.every(6)
def test_a_size_beyond_which_nothing_is_taken_is_caught(most: int) -> None:
    shapes = ({0: "batch", 1: "columns"},)
    report = parity.check(Cut(most), (torch.randn(2, 5, 4),), dynamic_shapes=shapes)
    assert not report.ok
    assert all(c.sizes for c in report.cells[""].failures)


@pytest.mark.parametrize("most", [5, 7, 40])
@pytest.mark.every(3)
def test_a_file_that_cuts_off_is_caught(most: int, tmp_path: Path) -> None:
    def written(name: str, network: nn.Module) -> str:
        program = converter.from_torch(network, (torch.randn(2, 3, 4),), dynamic_shapes=({1: "columns"},))
        converter.to_onnx(program, tmp_path / name)
        return str(tmp_path / name)

    network = Cut(1000)
    whole = written("whole.onnx", network)
    network.most = most
    cut = written("cut.onnx", network)
    assert compare_onnx(whole, whole).ok
    assert not compare_onnx(whole, cut).ok


def test_sizes_are_no_numbers_of_the_program() -> None:
    class Padded(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.cat([x.sum(0) / 7, x.new_zeros(9), x.new_zeros(11)])

    args, shapes = (torch.randn(5, 4),), ({0: "rows"},)
    program = converter.from_torch(Padded(), args, dynamic_shapes=shapes)
    assert {7, 9, 11} <= numbers_in(program)
    assert [sizes["rows"] for sizes in other_sizes(program, list(args), shapes)] == [1, 13]


def test_large_sizes_are_tried_where_they_are_affordable() -> None:
    class Wide(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.linear = nn.Linear(8, width)

        def forward(self, x: Tensor) -> Tensor:
            return self.linear(x).reshape(-1, 3, self.linear.out_features // 3)

    def tried(width: int) -> list[int]:
        args, shapes = (torch.randn(5, 8),), ({0: "rows"},)
        program = converter.from_torch(Wide(width), args, dynamic_shapes=shapes)
        return [sizes["rows"] for sizes in other_sizes(program, list(args), shapes)]

    assert max(tried(300)) > 100
    assert max(tried(3 * 10**5)) <= 16 * 5


def test_without_dynamic_dimensions_there_is_nothing_more_to_do() -> None:
    assert parity.check(Mean(), (torch.randn(4, 4),)).sizes == []


def test_a_name_must_be_one() -> None:
    with pytest.raises(UsageError, match="identifier"):
        converter.from_torch(Mean(), (torch.randn(4, 4),), dynamic_shapes=({0: "2 * n"},))
