"""Sizes that depend on data: what is captured on one input is run on others, which find more or fewer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from cellbridge import converter, runtime
from cellbridge.runtime.compiled.session import run_model
from cellbridge.runtime.errors import ProgramError
from cellbridge.runtime.ir.program import Program
from cellbridge.runtime.programs.call import as_array
from tests.converter.capturing import Function


def pad_to_count(x: Tensor, mask: Tensor) -> Tensor:
    count = mask.sum().item()
    torch._check(count >= 0)
    torch._check(count <= x.shape[0])
    return torch.cat([x[:count], torch.zeros(count, x.shape[1], dtype=x.dtype), x])


def top_few(x: Tensor, mask: Tensor) -> Tensor:
    count = mask.sum().item()
    torch._check(count >= 0)
    torch._check(count <= x.shape[0])
    return torch.topk(x, count, dim=0)[0] * (count + 0.5)


def put_at_places(x: Tensor, mask: Tensor) -> Tensor:
    y = x.clone()
    y[mask] = x[mask] * 3
    y[:, 1][mask] += 1.0
    return y


CASES: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "nonzero": lambda x, mask: (mask.nonzero(), (x > 0).nonzero()),
    "nonzero_as_tuple": lambda x, mask: torch.nonzero(x > 0, as_tuple=True),
    "argwhere": lambda x, mask: torch.argwhere(mask),
    "masked_select": lambda x, mask: torch.masked_select(x, mask[:, None]) ** 2,
    "rows": lambda x, mask: x[mask].sum(1),
    "mean": lambda x, mask: (x[mask].mean(0), x[x > 0].mean(), x[mask].var(0), x[mask].amax(1)),
    "any": lambda x, mask: ((x[mask] > 0).any(), (x[mask] > 0).all(0)),
    "cumulative": lambda x, mask: (x[mask].cumprod(1), x[mask].cumsum(0), x[mask].logcumsumexp(1)),
    "bucketize": lambda x, mask: torch.bucketize(x[mask], torch.tensor([0.0, 1.0], dtype=x.dtype)),
    "elements": lambda x, mask: x[x > 0].exp(),
    "middle": lambda x, mask: x[None, :, None][:, mask, :, 1:],
    "mask_beside_numbers": lambda x, mask: x[mask, 1],
    "mask_after_mask": lambda x, mask: x[mask][:, (x[0] > -9)],
    "put": put_at_places,
    "unique": lambda x, mask: torch.unique((x * 2).round().detach(), return_inverse=True, return_counts=True),
    "unique_rows": lambda x, mask: torch.unique(mask[:, None].expand(-1, 2), dim=0, return_inverse=True),
    "unique_consecutive": lambda x, mask: torch.unique_consecutive(mask, return_inverse=True, return_counts=True),
    "repeat_interleave": lambda x, mask: x.repeat_interleave(mask.long() + 1, dim=0),
    "item_as_size": pad_to_count,
    "item_as_k": top_few,
    "item_as_number": lambda x, mask: x * x.detach().max().item(),
    "size_as_number": lambda x, mask: x * x.shape[0] ** -0.5 + x.shape[0] / 2,
}
OTHERS = {"more": [True, True, True, False, True], "none": [False] * 5, "one": [False, True, False, False, False]}


def captured(function: Callable[..., Any], x: Tensor, mask: Tensor) -> Program:
    rows = torch.export.Dim("rows", min=2)
    return converter.from_torch(Function(function), (x, mask), dynamic_shapes=(({0: rows}, {0: rows}),))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.every(8)
def test_found_sizes_are_those_of_each_run(name: str) -> None:
    torch.manual_seed(0)
    function = CASES[name]
    program = captured(function, torch.randn(4, 3, dtype=torch.float64), torch.tensor([True, False, True, True]))
    model = converter.to_onnx(program)
    names = [value.name for value in model.graph.input]
    for label, chosen in OTHERS.items():
        x = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
        mask = torch.tensor(chosen)
        expected = function(x, mask)
        expected = expected if isinstance(expected, tuple) else (expected,)
        results = program(x, mask)
        results = results if isinstance(results, tuple) else (results,)
        exported = run_model(model, dict(zip(names, (as_array(x), as_array(mask)), strict=True)))
        for tensor, array, exported_array in zip(expected, results, exported.values(), strict=True):
            np.testing.assert_allclose(array, as_array(tensor), err_msg=label)
            np.testing.assert_allclose(exported_array, as_array(tensor), rtol=1e-6, err_msg=f"ONNX Runtime: {label}")
        reached = [t for t in expected if t.requires_grad]
        if reached:
            seeds = [torch.randn_like(t) for t in reached]
            (gradient,) = torch.autograd.grad(reached, x, seeds)
            _, gradients = program.value_and_grad(x, mask, cotangents=seeds)
            np.testing.assert_allclose(gradients.inputs[0], gradient, atol=1e-12, err_msg=label)


def stated(x: Tensor, mask: Tensor) -> Tensor:
    a, b = torch.masked_select(x[:, 0], mask), torch.masked_select(x[:, 1], mask)
    torch._check(a.shape[0] == b.shape[0])
    return F.l1_loss(a, b)


# in all of them a mask of six holds at three places
KNOWN: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "view": lambda x, mask: x[mask].view(3, 3, 1),
    "masked_select": lambda x, mask: torch.masked_select(x, mask[:, None]).view(3, 3),
    "nonzero": lambda x, mask: mask.nonzero().squeeze(1) + torch.arange(3),
    "unique": lambda x, mask: torch.unique(mask, return_counts=True)[1] + torch.arange(2),
    "unique_rows": lambda x, mask: torch.unique(mask[:, None], dim=0).sum(1) + torch.arange(2),
    "unique_consecutive": lambda x, mask: torch.unique_consecutive(mask.sort()[0]) ^ torch.tensor([True, False]),
    "off_the_diagonal": lambda x, mask: (x[:3] @ x[:3].T)[~torch.eye(3, dtype=torch.bool)].view(3, 2),
    "put": lambda x, mask: torch.zeros_like(x).index_put((mask,), x[:3]),
    "degrees": lambda x, mask: x / torch.bincount(mask.long() * 5, minlength=x.shape[0]).clamp(min=1)[:, None],
    "bins": lambda x, mask: x[:2] * torch.bincount(mask.long(), x[:, 0].detach(), minlength=2)[:, None],
    "both_halves": lambda x, mask: x[mask] + x[~mask],
    "mask_made_twice": lambda x, mask: x[mask > 0] * x[mask > 0],
    "stated": stated,
}


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.every(4)
def test_found_sizes_that_torch_knows_more_of(name: str, dynamic: bool) -> None:
    """They are a number, because the model makes a shape of it; equal another one, that is found or of an input."""
    x, mask = torch.randn(6, 3, dtype=torch.float64, requires_grad=True), torch.tensor([1, 0, 0, 1, 1, 0]).bool()
    rows = torch.export.Dim("rows", min=4)
    shapes = (({0: rows}, {0: rows}),) if dynamic else None
    program = converter.from_torch(Function(KNOWN[name]), (x, mask), dynamic_shapes=shapes)
    compiled = runtime.compile(program, "cpu")
    for chosen in (mask, mask.flip(0)):
        expected = KNOWN[name](x, chosen)
        for run in (program, compiled):
            np.testing.assert_allclose(run(x, chosen), as_array(expected), rtol=1e-6)
        if expected.requires_grad:
            (gradient,) = torch.autograd.grad(expected.square().sum(), x)
            _, gradients = program.value_and_grad(x, chosen, cotangents=[2 * expected])
            np.testing.assert_allclose(gradients.inputs[0], gradient, atol=1e-12)


def test_found_sizes_that_have_to_be_equal_are_explained() -> None:
    class TwoMasks(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.l1_loss(x[x > 0], x[-x < 0])

    with pytest.raises(runtime.ConversionError, match=r"two sizes that depend on data .*\n?.*torch\._check"):
        converter.from_torch(TwoMasks(), (torch.randn(3),))


def test_saved_and_loaded(tmp_path: Any) -> None:
    program = captured(CASES["elements"], torch.randn(4, 3), torch.ones(4, dtype=torch.bool))
    program.save(tmp_path / "net.cell")
    loaded = runtime.load(tmp_path / "net.cell")
    x, mask = torch.randn(7, 3), torch.ones(7, dtype=torch.bool)
    np.testing.assert_array_equal(loaded(x, mask), program(x, mask))


def test_a_size_that_nothing_tells_is_refused() -> None:
    program = captured(CASES["item_as_size"], torch.randn(4, 3), torch.ones(4, dtype=torch.bool))
    without = program.replace(nodes=tuple(node for node in program.nodes if node.op != "read_sizes"))
    with pytest.raises(ProgramError, match="the size 'u"):
        runtime.verify(without)


def test_a_size_that_torch_cannot_follow_is_explained() -> None:
    class Branches(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * 2 if x.sum() > 0 else x

    with pytest.raises(runtime.ConversionError, match=r"branches on the value of a tensor"):
        converter.from_torch(Branches(), (torch.randn(3),))


def test_an_empty_batch() -> None:
    """ONNX Runtime's kernels of several operators give other shapes of nothing when axes are counted from the end."""

    def function(x: Tensor) -> Any:
        extrema = (*x.cummax(1), *x.cummin(1))
        return x.cumprod(1), *extrema, x.logcumsumexp(1), x.roll(1, 0), x.roll((1, 2), (0, 1)), (x > 0).any(0)

    program = converter.from_torch(Function(function), (torch.randn(3, 5),), dynamic_shapes=(({0: "batch"},),))
    x = torch.zeros(0, 5)
    for run in (program, runtime.compile(program)):
        for actual, expected in zip(run(x.numpy()), function(x), strict=True):
            np.testing.assert_array_equal(actual, expected.numpy(), strict=True)
