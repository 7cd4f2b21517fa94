"""Each change of torch is there since the version that is said to have it; each fault is there in all of them."""

from __future__ import annotations

import importlib
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.checkpoint
from torch import Tensor, nn

from cellbridge import converter
from cellbridge.converter import from_torch, to_torch
from cellbridge.converter.torch_version import CHANGES, FAULTS, has_change, torch_version
from cellbridge.runtime.errors import UnsupportedOperators, UsageError
from cellbridge.runtime.ops import taylor
from tests.converter.capturing import Draws, Function

ROOT = Path(converter.__file__).parents[1]
BATCH = torch.export.Dim("batch")
X = torch.linspace(-1, 1, 24).reshape(8, 3)
SMALL = 0.045 * torch.tensor([[0.3, -0.5], [0.6, 0.4]], dtype=torch.float64)


def gradient(function: Callable[[Tensor], Tensor], *numbers: float) -> list[float]:
    x = torch.tensor(numbers, requires_grad=True)
    function(x).sum().backward()
    assert x.grad is not None
    return x.grad.tolist()


def exported(function: Callable[..., Any], is_open: bool = False) -> list[Any]:
    """What is called in the graph that `torch.export` makes of a function of `X`, whose first size may vary."""
    shapes = {"args": (({0: BATCH},),)} if is_open else None
    program = torch.export.export(Positional(function), (X,), dynamic_shapes=shapes)
    graphs = [part.graph for part in program.graph_module.modules() if isinstance(part, torch.fx.GraphModule)]
    return [node.target for graph in graphs for node in graph.nodes]


class Positional(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def is_refused(function: Callable[..., Any], is_open: bool = True) -> bool:
    try:
        exported(function, is_open)
    except (RuntimeError, torch._dynamo.exc.UserError):
        return True
    return False


def assigned(x: Tensor) -> Tensor:
    x = x.clone()
    x[0] = 0.1
    return x


def rank_of_mask() -> int:
    with Draws() as draws:
        torch.nn.functional.scaled_dot_product_attention(*[X.expand(2, 8, 3)] * 3, dropout_p=0.5)
    (mask,) = draws.recorded
    return mask.ndim


CHANGED: dict[str, Callable[[], bool]] = {
    "gradient at bounds": lambda: gradient(lambda x: x.clamp(0, 1), 0.0) == [0],
    "gradient of equal operands": lambda: gradient(lambda x: torch.fmax(x, x.detach()), 1.0) == [0.5],
    "exponential of small matrices": lambda: bool(
        (torch.linalg.matrix_exp(SMALL) - taylor.degree_12(torch.eye(2, dtype=torch.float64), SMALL)).abs().max()
        < 1e-15
    ),
    "assigned numbers": lambda: torch.ops.aten.lift_fresh_copy.default not in exported(assigned),
    "no aten.cholesky": lambda: not hasattr(torch.ops.aten, "cholesky"),
    "axis of dropout masks": lambda: rank_of_mask() == 4,
    "Function.apply in C++": lambda: not isinstance(torch.autograd.Function.apply, types.MethodType),
    "split checkpoint": lambda: hasattr(torch.utils.checkpoint, "_checkpoint_without_reentrant_generator_impl"),
    "ShapesSpec": lambda: hasattr(importlib.import_module("torch.fx.experimental.dynamic_spec"), "dynamic_spec"),
}


def without_gradient_within_autocast(x: Tensor) -> Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with torch.no_grad():
            y = x @ x.T
        return y * 2


def einsum_within_autocast(x: Tensor) -> Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return torch.einsum("ij,kj->ik", x, x)


def with_data(x: Tensor) -> Tensor:
    y = x * 2
    y.data = y.data + 1
    return y


def batch_norm_is_off_its_derivative() -> bool:
    """Whether a gradient in permuted strides gives another result than the same gradient in usual ones."""
    x = torch.arange(120.0).sin().reshape(1, 6, 4, 5).requires_grad_()
    gradient = torch.arange(120.0).cos().reshape(4, 1, 5, 6).permute(1, 3, 0, 2)
    y = nn.functional.batch_norm(x, torch.zeros(6), torch.ones(6))
    results = [torch.autograd.grad(y, x, g, retain_graph=True)[0] for g in (gradient, gradient.contiguous())]
    # without statistics of the batch, the derivative is the factor 1 / sqrt(1 + eps)
    assert torch.allclose(results[1], gradient / (1 + 1e-5) ** 0.5)
    return not torch.allclose(*results)


FAULTY: dict[str, Callable[[], bool]] = {
    "chunks of open sizes": lambda: is_refused(lambda x: torch.cat([x, x]).chunk(2)[0]),
    "distances of open sizes": lambda: is_refused(lambda x: torch.cdist(x, x)),
    "covariance": lambda: is_refused(lambda x: torch.cov(x.T)),
    "no_grad within autocast": lambda: (
        not any("grad" in str(target) for target in exported(without_gradient_within_autocast))
    ),
    "einsum within autocast": lambda: torch.ops.aten.einsum.default in exported(einsum_within_autocast),
    "data in place": lambda: is_refused(with_data, is_open=False),
    "batch norm of one image": batch_norm_is_off_its_derivative,
}


@pytest.mark.parametrize("name", CHANGED)
def test_a_change_is_there_since_its_version_and_not_before(name: str) -> None:
    assert CHANGED[name]() == has_change(name)


@pytest.mark.parametrize("name", FAULTY)
def test_a_fault_that_is_avoided_is_there(name: str) -> None:
    assert FAULTY[name](), f"torch {torch.__version__} does without: is it needed by the older versions only?"


def test_every_entry_is_tried_and_stands_where_it_is_said_to() -> None:
    assert CHANGED.keys() == CHANGES.keys()
    assert FAULTY.keys() == FAULTS.keys()
    places = [place for change in CHANGES.values() for place in change.followed_in]
    for place in (*places, *(fault.avoided_in for fault in FAULTS.values())):
        assert (ROOT / place).is_file()


@pytest.mark.skipif(torch_version() < (2, 14), reason="torch has them since 2.14")
@pytest.mark.parametrize("name", ["polar", "matrix_sqrth"])
def test_operators_that_are_new_in_torch_are_refused_by_name(name: str) -> None:
    with pytest.raises(UnsupportedOperators, match=f"aten.linalg_{name}.default"):
        from_torch(Function(getattr(torch.linalg, name)), (SMALL @ SMALL.T,))


def test_a_pre_release_counts_as_its_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.16.0.dev20261101+cpu")
    assert torch_version.__wrapped__() == (2, 16)


def test_torch_made_of_the_exponential_has_the_digits_of_the_program() -> None:
    program = from_torch(Function(torch.linalg.matrix_exp), (SMALL,))
    (node,) = (node for node in program.nodes if node.op == "matrix_exp")
    assert node.attributes["truncated"] is not has_change("exponential of small matrices")
    results = {}
    for truncated in (False, True):
        node.attributes["truncated"] = truncated
        expected = program(SMALL.numpy())
        actual = to_torch(program)(SMALL)
        np.testing.assert_allclose(actual.detach().numpy(), expected, rtol=1e-15)
        results[truncated] = expected
    assert 1e-14 < np.abs(results[False] - results[True]).max() < 1e-10


@pytest.mark.skipif(has_change("ShapesSpec"), reason="torch.export takes it")
def test_a_spec_is_refused_where_torch_does_not_take_it_yet() -> None:
    specs: Any = importlib.import_module("torch.fx.experimental.dynamic_spec")
    with pytest.raises(UsageError, match=r"ShapesSpec of torch 2\.14 or newer"):
        from_torch(Function(torch.tanh), (X,), dynamic_shapes=specs.ShapesSpec(specs.ParamsSpec({})))
