"""torch's control flow: captured with its branches and bodies, run on inputs that go the other way, differentiated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops import scan, while_loop
from torch._higher_order_ops.map import map as map_over
from torch.export import Dim

from cellbridge import converter, parity, runtime
from cellbridge.runtime.compiled.session import run_model
from cellbridge.runtime.programs.call import as_array


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.b = nn.Sequential(nn.Linear(3, 3), nn.Tanh())

    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: self.a(x), lambda x: self.b(x) * x.shape[0], (x,))


class BranchesOnSize(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(x.shape[0] > 4, lambda x: x * 2, lambda x: x + 1, (x,))


class Nested(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        def inner(x: Tensor) -> tuple[Tensor, Tensor]:
            return torch.cond(x[0, 0] > 0, lambda x: (x.exp(), x * 2), lambda x: (x.sin(), x - 1), (x,))

        return torch.cond(x.sum() > 0, inner, lambda x: (x + 1, x.cos()), (x,))


class Repeated(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        count = (x.detach().sum().abs() % 5).to(torch.int64)
        start = torch.zeros((), dtype=torch.int64)
        return while_loop(lambda i, y: i < count, lambda i, y: (i + 1, y * 0.5 + x.sin()), (start, x * 1.0))


class Scanned(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Any:
        def step(state: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
            state = torch.tanh(self.linear(state) + row)
            return state, state * 2

        forwards = scan(step, torch.zeros(3, dtype=x.dtype), x)
        backwards = scan(step, torch.ones(3, dtype=x.dtype), x, reverse=True)
        return *forwards, *backwards


class Mapped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return map_over(lambda row, y: self.linear(row) * y, x, x.mean(0))


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.utils.checkpoint.checkpoint(lambda x: self.linear(x).relu(), x, use_reentrant=False)


class Combined(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch._higher_order_ops.associative_scan(lambda a, b: a * b, x, dim=0, combine_mode="generic")


def repeated_in_python(x: Tensor) -> tuple[Tensor, Tensor]:
    """What `Repeated` does; torch's own gradient of a loop that never runs is wrong."""
    count = (x.detach().sum().abs() % 5).to(torch.int64)
    y = x * 1.0
    for _ in range(int(count)):
        y = y * 0.5 + x.sin()
    return count, y


def flat(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


TRUTH: dict[Any, Any] = {Repeated: repeated_in_python}
MODULES = (Branches, BranchesOnSize, Nested, Repeated, Scanned, Mapped, Checkpointed)


@pytest.mark.parametrize("module_class", MODULES)
@pytest.mark.every(9)
def test_control_flow_follows_its_input(module_class: type[nn.Module]) -> None:
    torch.manual_seed(1)
    module = module_class().double()
    rows = Dim("rows", min=2, max=64)
    program = converter.from_torch(module, (torch.randn(5, 3).double(),), dynamic_shapes=({0: rows},))
    runtime.verify(program)
    model = converter.to_onnx(program)
    for shift, size in ((1.0, 5), (-1.0, 3)):
        x = (torch.randn(size, 3) * 0.3 + shift).double().requires_grad_()
        expected = flat(TRUTH.get(module_class, module)(x))
        results = flat(program(x))
        exported = run_model(model, {"x": as_array(x)})
        for tensor, array, exported_array in zip(expected, results, exported.values(), strict=True):
            np.testing.assert_allclose(array, as_array(tensor), atol=1e-12)
            np.testing.assert_allclose(exported_array, as_array(tensor), atol=1e-12)
        reached = [t for t in expected if t.requires_grad]
        seeds = [torch.randn_like(t) for t in reached]
        leaves = [x, *module.parameters()]
        truth = torch.autograd.grad(reached, leaves, seeds, allow_unused=True)
        _, gradients = program.value_and_grad(x, cotangents=seeds)
        names = [name for name, _ in module.named_parameters()]
        computed = [gradients.inputs[0], *(gradients.parameters[name] for name in names)]
        for array, tensor in zip(computed, truth, strict=True):
            np.testing.assert_allclose(array, 0 if tensor is None else as_array(tensor), atol=1e-12)


def test_associative_scan() -> None:
    x = torch.randn(5, 3).double()
    program = converter.from_torch(Combined(), (x,))
    np.testing.assert_allclose(program(x), as_array(torch.cumprod(x, 0)), atol=1e-12)


@pytest.mark.parametrize("module_class", [Branches, Scanned])
@pytest.mark.every(2)
def test_saved_printed_and_retyped(module_class: type[nn.Module], tmp_path: Any) -> None:
    x = torch.randn(5, 3)
    program = converter.from_torch(module_class(), (x,))
    program.save(tmp_path / "net.cell")
    loaded = runtime.load(tmp_path / "net.cell")
    assert str(loaded) == str(program)
    assert "program " in str(program).partition("(root)")[2]
    for array, array_of_loaded in zip(flat(program(x)), flat(loaded(x)), strict=True):
        np.testing.assert_array_equal(array, array_of_loaded)
    wide = program.astype("float64")
    runtime.verify(wide)
    assert all(output.dtype == np.float64 for output in flat(wide(x.double())))


@pytest.mark.slow
def test_parity_of_a_model_with_branches_and_loops() -> None:
    for module in (Branches(), Scanned()):
        report = parity.check(module, (torch.randn(5, 3),), round_trip=True)
        assert report.ok, str(report)


def test_all_operators_missing_in_branches_are_listed() -> None:
    class Unknown(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            def resized(x: Tensor) -> Tensor:
                image = (x[None, None] * 2).to(torch.uint8)
                smooth = nn.functional.interpolate(image, size=(3, 3), mode="bilinear", antialias=True)
                return smooth.float().sum((0, 1)) + 1

            def hashed(x: Tensor) -> Tensor:
                return torch.hash_tensor(x).float() + x

            return torch.cond(x.sum() > 0, hashed, resized, (x,))

    with pytest.raises(runtime.UnsupportedOperators) as refusal:
        converter.from_torch(Unknown(), (torch.randn(3, 3),))
    assert "hash_tensor" in str(refusal.value)
    assert "upsample_bilinear2d_aa" in str(refusal.value)
