"""Signs of eigenvectors, rotations within equal eigenvalues and the order of ties are open, and no fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from torch import Tensor, nn

from cellbridge import converter, parity
from cellbridge.runtime import nn as cells
from cellbridge.runtime.ops.linear_algebra.spectral import eigh

SIGNS = (1.0, -1.0, -1.0, 1.0)
X = torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(1))


def flipped(v: Tensor) -> Tensor:
    return v * torch.tensor(SIGNS).to(v)


def exchanged(v: Tensor) -> Tensor:
    return v[..., [1, 0, 2, 3]]


def mixed(v: Tensor) -> Tensor:
    angle = torch.tensor(1e-4).to(v)
    first = v[..., 0] * angle.cos() + v[..., 1] * angle.sin()
    return torch.cat([first[..., None], v[..., 1:]], -1)


class Eigenvectors(nn.Module):
    def __init__(self, change: Any = None) -> None:
        super().__init__()
        self.change = change

    def forward(self, a: Tensor) -> tuple[Tensor, Tensor]:
        values, vectors = torch.linalg.eigh(a + a.mT)
        return values, vectors if self.change is None else self.change(vectors)


class Network(nn.Module):
    """Uses the last two eigenvectors, as the rows of a matrix."""

    def __init__(self, change: Any = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(4, 4)
        self.eigenvectors = Eigenvectors(change)
        self.last = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        values, vectors = self.eigenvectors(self.first(x))
        return self.last(vectors[..., -2:].mT), values


@pytest.mark.parametrize("probe", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_other_signs_pass_here_and_in_all_that_follows(probe: bool) -> None:
    report = parity.compare(Network(), Network(flipped), (X,), probe=probe)
    assert report.ok, str(report)
    kinds = {(c.kind, c.feeding) for cell in report.cells.values() for c in cell.comparisons}
    assert {("input gradient", "isolated"), ("input gradient", "end to end"), ("output", "second call")} <= kinds


@pytest.mark.parametrize(
    "change", [mixed, *(pytest.param(change, marks=pytest.mark.slow) for change in (exchanged, Tensor.detach))]
)
def test_another_vector_or_gradient_fails(change: Any) -> None:
    report = parity.compare(Network(), Network(change), (X,), diagnose_seconds=0)
    assert "eigenvectors" in report.failing or "" in report.failing
    assert not any("last" in path for path in report.failing)


class HalfGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return flipped(x)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g  # without the signs


def test_a_gradient_that_belongs_to_other_signs_fails() -> None:
    report = parity.compare(Eigenvectors(), Eigenvectors(HalfGradient.apply), (X,), diagnose_seconds=0)
    assert {c.kind for c in report.cells[""].failures} == {"input gradient"}


def test_onnx_runtime_may_choose_other_signs() -> None:
    report = parity.check(Network(), (X,))
    assert report.ok, str(report)


class ThreeEqual(nn.Module):
    """Eigenvectors of a matrix with an eigenvalue of multiplicity 3, of which a rotation is returned."""

    def __init__(self, columns: slice | None = None) -> None:
        super().__init__()
        self.columns = columns

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        scale = x[0, 0, 0].abs() + 1
        values, vectors = torch.linalg.eigh(torch.diag(torch.stack([scale, scale, scale, 2 * scale])))
        if self.columns is not None:
            vectors = vectors.clone()
            rotation, _ = torch.linalg.qr(x[0, :3, :3])
            vectors[:, self.columns] = vectors[:, self.columns] @ rotation
        return values, vectors


def test_eigenvectors_of_equal_values_may_be_turned() -> None:
    report = parity.compare(ThreeEqual(), ThreeEqual(slice(0, 3)), (X,), grads=False)
    assert not any(cell.failures for cell in report.cells.values()), str(report)
    assert not parity.compare(ThreeEqual(), ThreeEqual(slice(1, 4)), (X,), grads=False, diagnose_seconds=0).ok


class SingularVectors(nn.Module):
    def __init__(self, left: bool = False, right: bool = False, full: bool = False) -> None:
        super().__init__()
        self.left, self.right, self.full = left, right, full

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        u, s, v = torch.linalg.svd(x[:, :, :3], full_matrices=self.full)
        u = flipped(u[..., :4]) if self.left and self.full else u * u.new_tensor([1, -1, -1]) if self.left else u
        return u, s, v * v.new_tensor([1, -1, -1])[:, None] if self.right else v


@pytest.mark.parametrize("full", [pytest.param(False, marks=pytest.mark.slow), True])
def test_both_singular_vectors_change_signs_together(full: bool) -> None:
    grads = not full
    args = {"grads": grads, "diagnose_seconds": 0}
    assert parity.compare(SingularVectors(full=full), SingularVectors(True, True, full), (X,), **args).ok
    for sides in ((True, False), (False, True)):
        assert not parity.compare(SingularVectors(full=full), SingularVectors(*sides, full), (X,), **args).ok


class ComplexEigenvectors(nn.Module):
    """Eigenvectors of a Hermitian matrix, or of any, times phases."""

    def __init__(self, hermitian: bool, way: str = "") -> None:
        super().__init__()
        self.hermitian, self.way = hermitian, way

    def forward(self, x: Tensor) -> Tensor:
        if self.hermitian:
            _, vectors = torch.linalg.eigh(torch.complex(x + x.mT, x - x.mT))
        else:
            _, vectors = torch.linalg.eig(x)
        if self.way == "phases":
            vectors = vectors * torch.polar(torch.ones(4), torch.tensor([0.3, 1.0, 2.0, 3.0])).to(vectors)
        return exchanged(vectors) if self.way == "exchanged" else vectors


@pytest.mark.parametrize("hermitian", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_complex_eigenvectors_agree_up_to_a_phase(hermitian: bool) -> None:
    def report(way: str) -> parity.Report:
        modules = ComplexEigenvectors(hermitian), ComplexEigenvectors(hermitian, way)
        return parity.compare(*modules, (X,), grads=False, diagnose_seconds=0)

    assert report("phases").ok
    assert not report("exchanged").ok


TIES = torch.tensor([[3.0, 1, 3, 0, 2, 2, -1, 5], [1, 1, 1, 1, 1, 1, 1, 1]])


class Largest(nn.Module):
    def __init__(self, way: str = "") -> None:
        super().__init__()
        self.way = way

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        values, indices = torch.topk(x.flip(-1) if self.way == "last" else x, 3)
        if self.way == "last":  # of equal elements, those that come last
            indices = x.shape[-1] - 1 - indices
        if self.way == "exchanged":
            indices = indices[..., [1, 0, 2]]
        if self.way == "twice":
            indices = indices[..., [0, 2, 2]]
        return values, indices


class Chosen(nn.Module):
    def __init__(self, way: str = "") -> None:
        super().__init__()
        torch.manual_seed(0)
        self.largest, self.table = Largest(way), nn.Embedding(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        values, indices = self.largest(x)
        return self.table(indices) * values[..., None]


def test_of_equal_elements_any_may_be_chosen() -> None:
    report = parity.compare(Chosen(), Chosen("last"), (TIES,))
    assert report.ok, str(report)
    assert any(c.tensor == "[1]" for c in report.cells["largest"].comparisons)


@pytest.mark.parametrize("way", ["twice", pytest.param("exchanged", marks=pytest.mark.slow)])
def test_a_smaller_element_or_one_twice_fails(way: str) -> None:
    assert parity.compare(Chosen(), Chosen(way), (TIES,), diagnose_seconds=0).failing == ["largest"]


class Position(nn.Module):
    """The position of the largest element, or of one that is smaller by a share of it."""

    def __init__(self, share: float = 0.0, way: Any = torch.argmax) -> None:
        super().__init__()
        self.share, self.way = share, way

    def forward(self, x: Tensor) -> Tensor:
        x = torch.stack([x.sum(-1), x.sum(-1) * (1 - self.share)], -1)
        return self.way(x, -1) if self.share == 0 else self.way(x.flip(-1), -1)


@pytest.mark.parametrize("share", [1e-16, 1e-3])
@pytest.mark.every(2)
def test_rounding_decides_between_elements(share: float) -> None:
    class Reference(Position):
        def forward(self, x: Tensor) -> Tensor:
            x = torch.stack([x.sum(-1), x.sum(-1) * (1 - share)], -1)
            return torch.argmax(x, -1)

    report = parity.compare(Reference(), Position(share), (X.abs(),), grads=False, diagnose_seconds=0)
    assert report.ok == (share < 1e-10), str(report)


class Ported(cells.Cell):
    def __init__(self, sign: float, order: int = 1) -> None:
        super().__init__()
        self.sign, self.order = sign, order

    def construct(self, a: Any) -> Any:
        values, vectors = eigh(a + a.swapaxes(1, 2))
        return values, vectors[..., :: self.order] * self.sign


def test_a_port_may_choose_other_signs() -> None:
    report = parity.compare(Eigenvectors(), Ported(-1.0), (X,))
    assert report.ok, str(report)
    assert not parity.compare(Eigenvectors(), Ported(-1.0, order=-1), (X,), diagnose_seconds=0).ok


@pytest.mark.parametrize("operator", ["ArgMax", "ArgMin"])
@pytest.mark.every(2)
def test_a_file_may_not_choose_another_of_equal_elements(tmp_path: Path, operator: str) -> None:
    """torch takes the first of equal elements, as its documentation and ONNX's `select_last_index` say."""

    class Module(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.argmax(x, -1)

    file = tmp_path / "largest.onnx"
    model = converter.to_onnx(converter.from_torch(Module(), (TIES,)))
    (node,) = (node for node in model.graph.node if node.op_type == "ArgMax")
    node.attribute.append(onnx.helper.make_attribute("select_last_index", 1))
    node.op_type = operator
    onnx.save(model, file)
    assert not parity.compare(Module(), str(file), (TIES,), grads=False, diagnose_seconds=0, probe=True).ok
