"""Products and parts of matrices: against torch, outputs and gradients; dtypes and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

import cellbridge.runtime as ms
from cellbridge.runtime import Tensor, nn, ops
from tests.runtime.against_torch import assert_as_torch, normal

CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "matmul": (ops.matmul, torch.matmul, ((2, 1, 3, 4), (5, 4, 2))),
    "matmul vectors": (ops.matmul, torch.matmul, ((3,), (3,))),
    "matmul vector": (ops.matmul, torch.matmul, ((2, 4, 3), (3,))),
    "x.matmul": (lambda a, b: a.matmul(b), torch.matmul, ((2, 3), (3, 4))),
    "@": (lambda a, b: a @ b, torch.matmul, ((2, 3), (3, 4))),
    "MatMul": (ops.MatMul(), torch.matmul, ((2, 3), (3, 4))),
    "MatMul a": (ops.MatMul(transpose_a=True), lambda a, b: a.T @ b, ((3, 2), (3, 4))),
    "MatMul b": (ops.MatMul(transpose_b=True), lambda a, b: a @ b.T, ((2, 3), (4, 3))),
    "MatMul both": (ops.MatMul(True, True), lambda a, b: a.T @ b.T, ((3, 2), (4, 3))),
    "BatchMatMul": (ops.BatchMatMul(), torch.matmul, ((2, 3, 4), (2, 4, 2))),
    "BatchMatMul a": (ops.BatchMatMul(transpose_a=True), lambda a, b: a.mT @ b, ((2, 4, 3), (2, 4, 2))),
    "BatchMatMul b": (ops.BatchMatMul(transpose_b=True), lambda a, b: a @ b.mT, ((2, 1, 3, 4), (2, 2, 5, 4))),
    "bmm": (ops.bmm, torch.bmm, ((2, 3, 4), (2, 4, 5))),
    "mm": (ops.mm, torch.mm, ((2, 3), (3, 4))),
    "mv": (ops.mv, torch.mv, ((2, 3), (3,))),
    "dense": (ops.dense, F.linear, ((2, 5, 3), (4, 3), (4,))),
    "dense without bias": (ops.dense, F.linear, ((2, 3), (4, 3))),
    "outer": (ops.outer, torch.outer, ((3,), (4,))),
    "Ger": (ops.Ger(), torch.outer, ((3,), (4,))),
    "x.ger": (lambda a, b: a.ger(b), torch.outer, ((3,), (4,))),
    "inner": (ops.inner, torch.inner, ((2, 3), (4, 3))),
    "inner number": (ops.inner, lambda a, b: a * b, ((2, 3), ())),
    "dot": (ops.dot, torch.dot, ((3,), (3,))),
    "dot tensors": (ops.dot, lambda a, b: torch.tensordot(a, b, ([2], [1])), ((2, 3, 4), (5, 4, 2))),
    "vecdot": (ops.vecdot, torch.linalg.vecdot, ((2, 3), (1, 3))),
    "tensor_dot": (lambda a, b: ops.tensor_dot(a, b, 2), lambda a, b: torch.tensordot(a, b, 2), ((2, 3, 4), (3, 4, 5))),
    "tensor_dot none": (lambda a, b: ops.tensor_dot(a, b, 0), lambda a, b: torch.tensordot(a, b, 0), ((2,), (3,))),
    "tensor_dot axes": (
        lambda a, b: ops.tensor_dot(a, b, ((0, -1), (2, 0))),
        lambda a, b: torch.tensordot(a, b, ([0, -1], [2, 0])),
        ((2, 3, 4), (4, 5, 2)),
    ),
    "Einsum": (lambda a, b: ops.Einsum("ij,jk->ik")((a, b)), torch.mm, ((2, 3), (3, 4))),
    "kron": (ops.kron, torch.kron, ((2, 3), (3, 2))),
    "kron of different ranks": (ops.kron, torch.kron, ((2, 2, 3), (3,))),
    "matrix_power": (lambda a: ops.matrix_power(a, 3), lambda a: torch.linalg.matrix_power(a, 3), ((2, 3, 3),)),
    "matrix_power 0": (lambda a: ops.matrix_power(a, 0) * a, lambda a: torch.eye(3, dtype=a.dtype) * a, ((3, 3),)),
    "addmm": (
        lambda x, a, b: ops.addmm(x, a, b, beta=0.5, alpha=2),
        lambda x, a, b: torch.addmm(x, a, b, beta=0.5, alpha=2),
        ((4,), (2, 3), (3, 4)),
    ),
    "addmv": (ops.addmv, torch.addmv, ((2,), (2, 3), (3,))),
    "addr": (ops.addr, torch.addr, ((2, 3), (2,), (3,))),
    "baddbmm": (
        lambda x, a, b: ops.baddbmm(x, a, b, 2, 3),
        lambda x, a, b: torch.baddbmm(x, a, b, beta=2, alpha=3),
        ((2, 3, 5), (2, 3, 4), (2, 4, 5)),
    ),
    "baddbmm beta 0": (
        lambda x, a, b: ops.baddbmm(x, a, b, beta=0),
        lambda x, a, b: torch.baddbmm(x, a, b, beta=0),
        ((2, 3, 5), (2, 3, 4), (2, 4, 5)),
    ),
    "addbmm": (ops.addbmm, torch.addbmm, ((3, 5), (2, 3, 4), (2, 4, 5))),
    "tril": (lambda x: ops.tril(x, -1), lambda x: x.tril(-1), ((2, 3, 4),)),
    "Tril": (lambda x: ops.Tril(1)(x), lambda x: x.tril(1), ((3, 4),)),
    "triu": (lambda x: x.triu(1), lambda x: x.triu(1), ((2, 3, 4),)),
    "Triu": (ops.Triu(), torch.triu, ((3, 4),)),
    "MatrixBandPart": (lambda x: ops.MatrixBandPart()(x, 1, 0), lambda x: x.tril(0).triu(-1), ((4, 4),)),
    "matrix_band_part all": (lambda x: ops.matrix_band_part(x, -1, 1), lambda x: x.tril(1), ((4, 4),)),
    "diag vector": (ops.diag, torch.diag, ((3,),)),
    "diag matrix": (ops.diag, lambda x: torch.diag(x.reshape(-1)).reshape(3, 2, 3, 2), ((3, 2),)),
    "diag part": (ops.DiagPart(), torch.diag, ((3, 3),)),
    "diagonal": (lambda x: ops.diagonal(x, 1, 2, 0), lambda x: x.diagonal(1, 2, 0), ((4, 2, 3),)),
    "diagonal below": (lambda x: x.diagonal(-1), lambda x: x.diagonal(-1), ((4, 2, 3),)),
    "no diagonal": (lambda x: x.diagonal(9), lambda x: x.diagonal(9), ((4, 2, 3),)),
    "diagonal_scatter": (
        lambda x, s: ops.diagonal_scatter(x, s, -1),
        lambda x, s: x.diagonal_scatter(s, -1),
        ((4, 3, 2), (2, 3)),
    ),
    "diag_embed": (lambda x: ops.diag_embed(x, 1), lambda x: torch.diag_embed(x, 1), ((2, 3),)),
    "diag_embed axes": (lambda x: ops.diag_embed(x, -1, 0, 2), lambda x: torch.diag_embed(x, -1, 0, 2), ((2, 3),)),
    "trace": (ops.trace, torch.trace, ((3, 4),)),
    "x.trace": (lambda x: x.trace(1, 1, 2), lambda x: x.diagonal(1, 1, 2).sum(-1), ((2, 3, 4),)),
    "cross": (ops.cross, lambda a, b: torch.linalg.cross(a, b, dim=0), ((3, 2), (3, 2))),
    "cross dim": (lambda a, b: ops.cross(a, b, -1), lambda a, b: torch.linalg.cross(a, b), ((2, 3), (1, 3))),
}

EQUATIONS = {
    "ij,jk->ik": ((2, 3), (3, 4)),
    "ij,jk": ((2, 3), (3, 4)),
    "bij,bkj->bik": ((2, 3, 4), (2, 5, 4)),
    "i,j->ij": ((2,), (3,)),
    "i,i->": ((3,), (3,)),
    "ij->": ((2, 3),),
    "ij->j": ((2, 3),),
    "ba": ((2, 3),),
    "ii->i": ((3, 3),),
    "ii": ((3, 3),),
    "...ij->...ji": ((2, 3, 4),),
    "...ij,...jk->...ik": ((2, 1, 3, 4), (5, 4, 2)),
    "bhqd,bhkd->bhqk": ((2, 2, 3, 4), (2, 2, 5, 4)),
    "a,ab,b->a": ((2,), (2, 3), (3,)),
    "ij,ij->ij": ((1, 3), (2, 3)),
}


@pytest.mark.parametrize(("function", "torch_function", "shapes"), CASES.values(), ids=CASES)
def test_as_torch(
    function: Callable[..., Any], torch_function: Callable[..., Any], shapes: tuple[tuple[int, ...], ...]
) -> None:
    assert_as_torch(function, torch_function, *(normal(*shape, seed=i) for i, shape in enumerate(shapes)))


@pytest.mark.parametrize(("equation", "shapes"), EQUATIONS.items())
def test_einsum(equation: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    arrays = [normal(*shape, seed=i) for i, shape in enumerate(shapes)]
    assert_as_torch(lambda *xs: ops.einsum(equation, *xs), lambda *xs: torch.einsum(equation, *xs), *arrays, rtol=1e-8)


@settings(max_examples=50, deadline=None)
@given(st.integers(-4, 4), st.integers(1, 4), st.integers(1, 4))
def test_diagonals(offset: int, rows: int, columns: int) -> None:
    x = normal(rows, columns)
    np.testing.assert_array_equal(ops.diagonal(Tensor(x), offset).asnumpy(), x.diagonal(offset))
    vector = normal(columns)
    np.testing.assert_array_equal(ops.diag_embed(Tensor(vector), offset).asnumpy(), np.diag(vector, offset))


def test_integers() -> None:
    product = Tensor([[1, 2]]) @ Tensor([[3], [4]])
    assert product.dtype == np.int64
    assert product.asnumpy().tolist() == [[11]]
    assert ops.trace(Tensor([[1, 2], [3, 4]])).asnumpy() == 5


def test_to_float_gives_the_operands_one_dtype() -> None:
    class Product(nn.Cell):
        def construct(self, a: Tensor, b: Tensor) -> Tensor:
            return ops.matmul(a, b)

    a, b = Tensor([[1.0, 2.0]], ms.float32), Tensor([[1.0], [2.0]], ms.float16)
    assert Product().to_float(ms.float16)(a, b).dtype == np.float16
    with pytest.raises(TypeError, match="MatMul"):
        Product()(a, b)


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (lambda x: ops.matmul(x, x.astype(ms.float16)), TypeError, ("MatMul", "type", "Float64", "Float16")),
        (lambda x: x @ Tensor([1, 2, 3]), TypeError, ("MatMul", "type", "Int64")),
        (lambda x: ops.dense(x.astype(ms.float16), x), TypeError, ("MatMul", "type")),
        (lambda x: ops.BatchMatMul()(x, x.astype(ms.float16)), TypeError, ("BatchMatMul", "type")),
        (lambda x: ops.addmm(x.astype(ms.float16), x, x.T), TypeError, ("addmm", "type")),
        (lambda x: ops.matmul(x, x), ValueError, ("3", "2")),
        (lambda x: ops.matmul(x, 2.0), TypeError, ("MatMul", "type")),
        (lambda x: ops.matmul(x, Tensor(np.float64(2))), ValueError, ("dimension",)),
        (lambda x: ops.MatMul()(x[None], x[None]), ValueError, ("MatMul", "(3, 3)")),
        (lambda x: ops.BatchMatMul()(x, x[0]), ValueError, ("BatchMatMul", "2 and 1")),
        (lambda x: ops.bmm(x, x.T), ValueError, ("bmm", "2")),
        (lambda x: ops.mv(x, x), ValueError, ("mv", "(2, 1)")),
        (lambda x: ops.dense(x, x[:, :2]), ValueError, ("3", "2")),
        (lambda x: ops.tensor_dot(x, x, 3), ValueError, ("tensor_dot", "axes", "3")),
        (lambda x: ops.tensor_dot(x, x, 1), ValueError, ("tensor_dot", "(2, 3)")),
        (lambda x: ops.tensor_dot(x, x, ((0, 1), (0,))), ValueError, ("tensor_dot", "axes")),
        (lambda x: ops.tensor_dot(x, x, "a"), TypeError, ("tensor_dot", "axes")),
        (lambda x: ops.einsum("ij,jk->ik", x), ValueError, ("ij,jk->ik", "2 operands", "1")),
        (lambda x: ops.einsum("ijk->ik", x), ValueError, ("ijk", "2 dimensions")),
        (lambda x: ops.einsum("ij->k", x), ValueError, ("'k'",)),
        (lambda x: ops.einsum(x, "ij"), TypeError, ("einsum", "equation")),
        (lambda x: ops.addmm(ops.zeros((5, 5), ms.float64), x, x.T), ValueError, ("addmm", "(5, 5)", "(2, 2)")),
        (lambda x: ops.matrix_power(x, 2), ValueError, ("matrix_power", "(2, 3)")),
        (lambda x: ops.tril(x[0]), ValueError, ("tril", "2", "1")),
        (lambda x: ops.diagonal(x, 0, 1, 1), ValueError, ("axes",)),
        (lambda x: ops.diagonal_scatter(x, x[0]), ValueError, ("diagonal_scatter", "(2,)", "(3,)")),
        (lambda x: ops.diag(x.sum()), ValueError, ("diag", "0-d")),
        (lambda x: ops.DiagPart()(x[None]), ValueError, ("DiagPart", "halves")),
        (lambda x: ops.diag_embed(x, 0, 1, 1), ValueError, ("diag_embed", "1")),
        (lambda x: ops.trace(x[0]), ValueError, ("trace", "1")),
        (lambda x: ops.cross(x[:, :2], x[:, :2]), ValueError, ("cross", "3", "(2, 2)")),
    ],
)
def test_errors(wrong: Callable[[Tensor], Any], error: type[Exception], words: tuple[str, ...]) -> None:
    with pytest.raises(error) as raised:
        wrong(Tensor(normal(2, 3)))
    assert [word for word in words if word not in str(raised.value)] == []
