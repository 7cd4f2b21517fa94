"""Complex tensors: arithmetic, functions, moves and comparisons, with gradients as torch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cellbridge.converter.capture import tables  # noqa: F401  (fills both tables)
from cellbridge.converter.capture.export import from_torch
from cellbridge.converter.capture.tables.complex_table import COMPLEX
from cellbridge.converter.torch_version import has_change
from tests.converter.capturing import assert_matches_torch

Check = Callable[..., Any]

_GENERATOR = torch.Generator().manual_seed(2)


def _numbers(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.complex128, generator=_GENERATOR)


FUNCTIONS: list[Callable[[Tensor], Tensor]] = [
    torch.exp, torch.exp2, torch.expm1, torch.log, torch.log2, torch.log10, torch.log1p, torch.sqrt, torch.rsqrt,
    torch.reciprocal, torch.square, torch.sgn, torch.sigmoid, nn.functional.silu, torch.sin, torch.cos, torch.tan,
    torch.sinh, torch.cosh, torch.tanh, torch.asin, torch.acos, torch.atan, torch.asinh, torch.acosh, torch.atanh,
    torch.abs, torch.angle, torch.conj, torch.neg, torch.real, torch.imag,
]  # fmt: skip


@pytest.mark.every(2)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_functions(check: Check, function: Callable[[Tensor], Tensor]) -> None:
    # on all sides of the branch cuts, which lie on the axes
    z = torch.tensor([0.5 + 2j, 0.5 - 2j, -1.5 + 0.25j, -1.5 - 0.25j, 3 + 0.1j])
    check(lambda z: function(z * 1.0), z, gradients=function is not nn.functional.silu)


def test_roots_and_logarithms_of_large_and_small_numbers() -> None:
    z = torch.tensor([3e30 + 4e30j, 1e-30 - 1e-30j, -4 + 0j, 0j], dtype=torch.complex64)

    class Module(nn.Module):
        def forward(self, z: Tensor) -> tuple[Tensor, ...]:
            return z.abs(), z.sqrt(), z / (3 + 4j), torch.ones_like(z) / z[:3].sum()

    for output, expected in zip(from_torch(Module(), (z,))(z), Module()(z), strict=True):
        numbers = torch.view_as_complex(torch.from_numpy(output)) if expected.is_complex() else torch.from_numpy(output)
        assert (numbers - expected).abs().div(expected.abs()).nan_to_num().max() < 1e-6


ARITHMETIC: dict[str, Callable[[Tensor, Tensor, Tensor], Any]] = {
    "sums": lambda z, w, x: (z + w, z - x, x - z, 2 - z, z + 1j, torch.add(z, w, alpha=2), torch.add(x, z, alpha=1j)),
    "products": lambda z, w, x: (z * w, z * x, x * 2j, z * 3, torch.addcmul(z, w, w, value=0.5)),
    "quotients": lambda z, w, x: (z / w, z / x, x / z, 1 / z, torch.addcdiv(z, w, z, value=2.0)),
    "powers": lambda z, w, x: (z**2, z**3, z**-1, z**0.5, z**1.7, z**w, x.abs() ** z, 2**z, z ** (1 + 2j)),
    "lerp": lambda z, w, x: torch.lerp(z, w, 0.25),
    "matrix products": lambda z, w, x: (z @ w.mH, x.cdouble() @ w.mT, z @ (x + 0j).mT, torch.einsum("ij,kj->ik", z, w)),
    "addmm": lambda z, w, x: torch.addmm(z[:, :3], z, w.mT, beta=0.5, alpha=1j),
    "linear": lambda z, w, x: nn.functional.linear(z, w, z[:, 0]),
    "dot": lambda z, w, x: (torch.vdot(z[0], w[0]), torch.dot(z[0], w[0]), torch.outer(z[0], w[1])),
    "sums of elements": lambda z, w, x: (z.sum(), z.mean(1), z.cumsum(0), z.prod(1), z.prod(), z.cumprod(1)),
    "variances": lambda z, w, x: (z.var(), z.std(1), torch.var_mean(z, dim=0)[0]),
    "norms": lambda z, w, x: (torch.linalg.vector_norm(z), torch.linalg.vector_norm(z, 1, dim=0), z.norm(3)),
    "parts": lambda z, w, x: (torch.complex(x, z.real), torch.polar(x, w.imag), torch.view_as_real(z)),
}


@pytest.mark.every(2)
@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic(check: Check, name: str) -> None:
    x = torch.rand(3, 4, dtype=torch.float64, generator=_GENERATOR) + 0.5
    check(ARITHMETIC[name], _numbers(3, 4), _numbers(3, 4), x)


INDEX = torch.tensor([2, 0])
MOVES: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "shapes": lambda z, x: (z.reshape(4, 3), z.flatten(), z[None], z.expand(2, 3, 4), z.T, z.mH, z.permute(1, 0)),
    "parts": lambda z, x: (z[1:], z[:, ::2], z[0], *z.chunk(2, 1), *z.unbind(0), z.diagonal(), z.unfold(1, 2, 1)),
    "joined": lambda z, x: (torch.cat([z, x]), torch.stack([x, z]), torch.cat([z, z.conj()], 1)),
    "chosen": lambda z, x: (torch.where(x > 0, z, z.conj()), torch.where(x > 0, z, 2j), z.masked_fill(x > 0, 1 - 1j)),
    "indexed": lambda z, x: (
        z[[0, 2]],
        z[:, [1, 1]],
        z.gather(1, (x > 0).long()),
        z.index_select(0, (x[:2, 0] > 0).int()),
    ),
    "written": lambda z, x: (
        z.index_put((torch.tensor([0, 2]),), x[0] * 1j),
        z.index_add(0, torch.tensor([1, 1]), z[:2]),
        z.scatter(1, torch.tensor([[0], [1], [2]]), z[:, 3:]),
        torch.zeros_like(z).copy_(x),
    ),
    "padded": lambda z, x: (nn.functional.pad(z, (1, 2), value=3.0), nn.functional.pad(z[None], (1, 1), "reflect")),
    "repeated": lambda z, x: (z.repeat(2, 1), z.roll(1, 0), z.flip(1), z.tril(), z.triu(1), z.repeat_interleave(2)),
    "made": lambda z, x: (z + torch.ones_like(z), z * torch.full_like(z, 1 + 2j), z + torch.eye(3, 4) * 1j),
    "converted": lambda z, x: (x.to(z.dtype) * z, z.to(torch.complex64).to(torch.complex128), z.detach() * z),
    "a mask": lambda z, x: (z[x > 0], torch.masked_select(z, x > 0)),
}


@pytest.mark.every(2)
@pytest.mark.parametrize("name", MOVES)
def test_moves(check: Check, name: str) -> None:
    x = torch.randn(3, 4, dtype=torch.float64, generator=_GENERATOR)
    check(MOVES[name], _numbers(3, 4), x, tolerance=1e-6 if name == "converted" else None)


def test_comparisons(check: Check) -> None:
    z = torch.tensor([1 + 1j, 1 - 1j, 0j, complex("nan"), complex("inf")])
    check(
        lambda z: (
            *(z == z.conj(), z != 1 + 1j, z == 0, z.isnan(), z.isinf(), z.isfinite(), z.bool()),
            *(torch.logical_not(z), torch.logical_and(z, z), z[:3].any(), z[:3].all(), z[:3].nonzero()),
        ),
        z,
        gradients=False,
    )


def test_symbolic_shapes(check: Check) -> None:
    def rotate(x: Tensor, turns: Tensor) -> Tensor:
        numbers = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(numbers * turns[: x.shape[0]]).flatten(-2)

    check(
        rotate,
        torch.randn(5, 6),
        _numbers(9, 3),
        dynamic_shapes=({0: torch.export.Dim("steps", max=9)}, None),
        others=(torch.randn(1, 6), _numbers(9, 3)),
    )


def test_parameters_and_buffers() -> None:
    class Recurrence(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.decay = nn.Parameter(_numbers(4))
            self.register_buffer("state", torch.zeros(4, dtype=torch.complex128))

        def forward(self, x: Tensor) -> Tensor:
            self.state.copy_(self.state + x.sum(0))
            return (self.decay * x).real

    program = assert_matches_torch(Recurrence(), torch.randn(3, 4), train=True)
    assert program.parameters["decay"].value.shape == (4, 2)
    assert program.buffers["state"].update is not None


def test_every_name_in_the_table_of_complex_operators_is_one_of_torch() -> None:
    for name in COMPLEX:
        namespace, operator, overload = name.split(".")
        assert namespace == "aten"
        if not (name == "aten.cholesky.default" and has_change("no aten.cholesky")):  # torch removed it
            assert hasattr(getattr(torch.ops.aten, operator), overload), name


def test_what_is_real_only_is_refused_by_name(unsupported: Callable[..., str]) -> None:
    message = unsupported(lambda z: torch.view_as_real(torch.cummax(z.real, 0)[0] + z.normal_()), _numbers(3))
    assert "on complex numbers" in message
