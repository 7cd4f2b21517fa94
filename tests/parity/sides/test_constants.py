"""Constants that forward makes from Python numbers: on every side they are the numbers of the working run."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cellbridge import converter, parity

V = [0.1, 0.2, 0.7]
Maker = Callable[[Tensor, torch.dtype | None], Tensor]


def assigned(x: Tensor, dtype: torch.dtype | None) -> Tensor:
    result = torch.zeros(3, dtype=dtype)
    result[1] = 0.1
    return result


MAKERS: dict[str, Maker] = {
    "tensor": lambda x, dtype: torch.tensor(V, dtype=dtype),
    "tensor of lists": lambda x, dtype: torch.tensor([V, [0.3] * 3], dtype=dtype)[0],
    "tensor of numpy numbers": lambda x, dtype: torch.tensor([np.float64(v) for v in V], dtype=dtype),
    "tensor of an array": lambda x, dtype: torch.tensor(np.array(V), dtype=dtype),
    "as_tensor": lambda x, dtype: torch.as_tensor(V, dtype=dtype),
    "as_tensor of an array": lambda x, dtype: torch.as_tensor(np.array(V), dtype=dtype),
    "asarray": lambda x, dtype: torch.asarray(tuple(V), dtype=dtype),
    "new_tensor": lambda x, dtype: x.new_tensor(V, dtype=dtype),
    "scalar": lambda x, dtype: torch.tensor(0.1, dtype=dtype),
    "scalar_tensor": lambda x, dtype: torch.scalar_tensor(0.1, dtype=dtype),
    "full": lambda x, dtype: torch.full((3,), 0.1, dtype=dtype),
    "full_like": lambda x, dtype: torch.full_like(x, 0.1, dtype=dtype),
    "new_full": lambda x, dtype: x.new_full((3,), 0.1, dtype=dtype),
    "fill_": lambda x, dtype: torch.empty(3, dtype=dtype).fill_(0.1),
    "assigned": assigned,
    "masked_fill": lambda x, dtype: torch.zeros(3, dtype=dtype).masked_fill(torch.tensor([True, False, True]), 0.1),
    "arange": lambda x, dtype: torch.arange(0.1, 0.35, 0.1, dtype=dtype),
    "linspace": lambda x, dtype: torch.linspace(0.1, 0.7, 3, dtype=dtype),
    "ones times a number": lambda x, dtype: torch.ones(3, dtype=dtype) * 0.1,
    "numbers cast": lambda x, dtype: torch.tensor(V).to(dtype or torch.float32),
    "wide numbers cast": lambda x, dtype: torch.tensor(V, dtype=torch.float64).to(dtype or torch.float32),
    "indexed": lambda x, dtype: torch.tensor([*V, 0.3], dtype=dtype)[torch.tensor([2, 0, 3])],
    "sinusoids": lambda x, dtype: (
        torch.arange(3, dtype=dtype) * x.new_tensor([math.exp(-i / 4) for i in range(3)], dtype=dtype)
    ).sin(),
}
WITHOUT_DTYPE: dict[str, Maker] = {
    "Tensor": lambda x, _: torch.Tensor(V),
    "FloatTensor": lambda x, _: torch.FloatTensor(V),
    "HalfTensor": lambda x, _: torch.HalfTensor(V),
    "new": lambda x, _: x.new(V),
    "type_as": lambda x, _: torch.tensor(V).type_as(x),
    "from_numpy": lambda x, _: torch.from_numpy(np.array(V, np.float32)),
    "complex": lambda x, _: torch.view_as_real(torch.tensor([0.1 + 0.2j, 0.3, 0.7j])).sum(-1),
    "complex64": lambda x, _: torch.tensor([0.1j, 0.3, 0.7j], dtype=torch.complex64).abs(),
    "changed in place": lambda x, _: torch.Tensor(V).mul_(torch.Tensor([0.3])).copy_(torch.Tensor([0.3, 0.1, 0.9])),
    "attribute's dtype": lambda x, _: torch.tensor(V, dtype=torch.ones(3).half().dtype),
    "default dtype": lambda x, _: torch.tensor(V, dtype=torch.get_default_dtype()),
}
DTYPES = {
    "default": None, "of x": "of x", "float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16,
    "float64": torch.float64,
}  # fmt: skip
USES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "times": lambda x, c: x * c,
    "minus": lambda x, c: x - c,
}


class Using(nn.Module):
    def __init__(self, make: Maker, dtype: Any, use: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.make, self.dtype, self.use = make, dtype, use

    def forward(self, x: Tensor) -> Tensor:
        dtype = x.dtype if self.dtype == "of x" else self.dtype
        return self.use(x, self.make(x, dtype).to(x.dtype))


class Scaled(torch.autograd.Function):
    """Has constants in a backward written by hand."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * x.new_tensor(V) * torch.tensor(0.3, dtype=x.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (g,) = gradients
        return (g.float() * torch.tensor(0.3, dtype=g.dtype)).to(g.dtype) * g.new_tensor(V)


class ClassWeights(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        labels = torch.tensor([0, 2])
        return x * F.cross_entropy(x, labels, weight=torch.tensor([0.1, 0.3, 0.7], dtype=x.dtype))


class Handwritten(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return Scaled.apply(x)  # type: ignore[no-any-return]


class Normalised(nn.Module):
    """The normalisation of images, and a batch norm behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x: Tensor) -> Tensor:
        mean = torch.tensor([0.485, 0.456, 0.406], dtype=x.dtype, device=x.device)
        std = torch.as_tensor([0.229, 0.224, 0.225]).to(x)
        return self.norm((x - mean) / std)  # type: ignore[no-any-return]


class Network(nn.Module):
    """All of them as Cells, each of the same values."""

    def __init__(self, cells: dict[str, nn.Module]) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.cells = nn.ModuleDict({name.replace(".", "_"): cell for name, cell in cells.items()})

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer(x)
        return torch.stack([cell(x) for cell in self.cells.values()])


def network(every: int) -> Network:
    """Return a network of each `every`-th way of making a constant, and each use of them."""
    table = [(name, make, dtype) for (name, make), dtype in itertools.product(MAKERS.items(), DTYPES)]
    table += [(name, make, "default") for name, make in WITHOUT_DTYPE.items()]
    cells: dict[str, nn.Module] = {
        f"{name}, {dtype}, {use}": Using(make, DTYPES[dtype], USES[use])
        for (name, make, dtype), use in zip(table[::every], itertools.cycle(USES), strict=False)
    }
    cells |= {"class weights": ClassWeights(), "written by hand": Handwritten(), "normalised": Normalised()}
    torch.manual_seed(0)
    return Network(cells)


X = torch.randn(2, 3, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("dtype", "train", "every"),
    [
        ("float32", False, 4),
        pytest.param("float32", False, 1, marks=pytest.mark.slow),
        pytest.param("float32", True, 5, marks=pytest.mark.slow),
        pytest.param("float16", False, 5, marks=pytest.mark.slow),
        ("bfloat16", True, 9),
        pytest.param("bfloat16", False, 5, marks=pytest.mark.slow),
        pytest.param("float64", True, 5, marks=pytest.mark.slow),
    ],
)
@pytest.mark.every(2)
def test_every_constant_is_the_same_on_every_side(dtype: str, train: bool, every: int) -> None:
    report = parity.check(network(every), (X,), dtype=dtype, train=train)
    assert not report.failing
    assert {cell.status for cell in report.cells.values()} <= {"pass"}


PLANTED = ["tensor", "scalar_tensor", "full", "linspace", "arange"]


@pytest.mark.parametrize("maker", PLANTED)
def test_another_number_is_still_found(maker: str) -> None:
    """A candidate whose number is off by a millionth fails; with the same number, made in another way, it holds."""
    sound = Using(MAKERS[maker], "of x", USES["times"])
    program = converter.from_torch(sound, (X,))

    def off(program: Any) -> Any:
        constants = tuple(
            replace(c, data=c.data * (1 + 1e-6)) if c.data.dtype.kind == "f" else c for c in program.constants
        )
        nodes = tuple(
            replace(n, attributes={k: v * (1 + 1e-6) if k in ("value", "step") else v for k, v in n.attributes.items()})
            if n.op in ("full", "arange")
            else n
            for n in program.nodes
        )
        return program.replace(constants=constants, nodes=nodes)

    assert parity.compare(sound, program, (X,)).ok
    assert not parity.compare(sound, off(program), (X,)).ok


@pytest.mark.every(2)
@pytest.mark.parametrize("maker", [*PLANTED, *WITHOUT_DTYPE])
def test_the_written_file_holds(maker: str, tmp_path: Path) -> None:
    sound = Using((MAKERS | WITHOUT_DTYPE)[maker], None, USES["times"])
    converter.to_onnx(converter.from_torch(sound, (X,)), tmp_path / "m.onnx")
    assert parity.compare(sound, tmp_path / "m.onnx", (X,)).ok


def test_two_modules_may_make_a_number_in_different_ways() -> None:
    modules = [Using(lambda x, _, v=v: torch.tensor([v] * 3), None, USES["times"]) for v in (0.1, 0.1000001)]  # type: ignore[misc]
    candidate = Using(MAKERS["full"], torch.float32, USES["times"])
    assert parity.compare(modules[0], candidate, (X,)).ok
    assert not parity.compare(modules[1], candidate, (X,)).ok


@pytest.mark.slow
@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("captured", "eager"), [("tensor", "new_full"), ("scalar", "full"), ("full", "tensor"), ("asarray", "fill_")]
)
@pytest.mark.parametrize("use", USES)
@pytest.mark.every(2)
def test_code_may_make_a_number_in_another_way_while_it_is_captured(captured: str, eager: str, use: str) -> None:
    """As kornia's blur does; a number that is another one, by a millionth, still fails."""

    def make(x: Tensor, dtype: torch.dtype | None, *, change: float = 0) -> Tensor:
        is_captured = torch.compiler.is_compiling()
        number = MAKERS[captured if is_captured else eager](x, dtype).flatten()[0]
        return torch.zeros_like(x) + (number * (1 + change) if is_captured else number)

    def off(x: Tensor, dtype: torch.dtype | None) -> Tensor:
        return make(x, dtype, change=1e-6)

    assert parity.check(Using(make, "of x", USES[use]), (X,), probe=True).ok
    assert not parity.check(Using(off, "of x", USES[use]), (X,)).ok
