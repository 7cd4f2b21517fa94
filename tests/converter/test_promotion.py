"""Operands of different dtypes: dtype and values are torch's, for tensors, 0-dimensional ones and numbers."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from cellbridge import runtime
from cellbridge.converter.capture.export import from_torch
from cellbridge.runtime.programs.call import as_array
from tests.converter.capturing import Function

DTYPES = (
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
    torch.uint8, torch.bool,
)  # fmt: skip
NUMBERS = (3, -2, 2.5, True)
SPACING = {"float64": 1e-14, "float32": 1e-6, "float16": 2e-3, "bfloat16": 1.6e-2}
FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "mul": operator.mul, "truediv": operator.truediv, "floordiv": operator.floordiv,
    "mod": operator.mod, "pow": operator.pow, "eq": operator.eq, "lt": operator.lt, "and": operator.and_,
    "lshift": operator.lshift, "rshift": operator.rshift,
    "sub": operator.sub, "maximum": torch.maximum, "atan2": torch.atan2, "fmod": torch.fmod,
    "where": lambda a, b: torch.where(a > 1, a, b), "copysign": torch.copysign, "xlogy": torch.xlogy,
    "reversed sub": lambda a, b: b - a, "reversed truediv": lambda a, b: b / a,
}  # fmt: skip


def tensor(dtype: torch.dtype, *, flat: bool = False) -> Tensor:
    values = torch.tensor([2.0, 1.0, 3.0]) if flat else torch.tensor(2.0)
    return values.to(dtype)


def takes(function: Callable[[Any, Any], Any], a: Any, b: Any) -> bool:
    """Whether torch takes these operands, and infers the dtype that it then gives (not so for bool ** bool)."""
    inferred = [x.to("meta") if isinstance(x, Tensor) else x for x in (a, b)]
    try:
        return bool(function(a, b).dtype == function(*inferred).dtype)
    except (RuntimeError, TypeError, NotImplementedError):
        return False


QUICK = ("add",)  # the others take some seconds each


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in FUNCTIONS]
)
def test_results_are_as_torch_promotes(name: str) -> None:
    function = FUNCTIONS[name]
    inputs = [tensor(dtype, flat=flat) for flat in (True, False) for dtype in DTYPES]
    pairs = [(i, j) for i in range(len(inputs)) for j in range(len(inputs)) if takes(function, inputs[i], inputs[j])]
    scalars = [(i, n) for i in range(len(inputs)) for n in NUMBERS if takes(function, inputs[i], n)]
    assert pairs

    def all_pairs(*tensors: Tensor) -> list[Tensor]:
        return [
            *(function(tensors[i], tensors[j]) for i, j in pairs),
            *(function(tensors[i], number) for i, number in scalars),
        ]

    expected = all_pairs(*inputs)
    actual = from_torch(Function(all_pairs), tuple(inputs))(*inputs)
    for case, truth, array in zip([*pairs, *scalars], expected, actual, strict=True):
        expected_array = as_array(truth)
        message = f"{name} of {[inputs[case[0]].dtype, case[1]]}"
        assert (array.dtype, array.shape) == (expected_array.dtype, expected_array.shape), message
        rtol = SPACING.get(expected_array.dtype.name, 0)
        np.testing.assert_allclose(
            array.astype(np.float64), expected_array.astype(np.float64), rtol=rtol, err_msg=message
        )


class Autocast(nn.Module):
    """Matrix products in bfloat16, a sum in float32, and what comes out of the region."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        before = x @ x.T
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.inner(x)
            with torch.autocast("cpu", enabled=False):
                z = self.inner(y.float())[:, :3] if y.shape[1] == 4 else y.float() * 2
            product = y @ y.T
        return before, y, z, product


def test_autocast_regions_keep_their_dtypes() -> None:
    torch.manual_seed(0)
    module, x = Autocast(), torch.randn(2, 4)
    expected = module(x)
    program = from_torch(module, (x,))
    for truth, array in zip(expected, program(x), strict=True):
        expected_array = as_array(truth)
        assert array.dtype == expected_array.dtype
        np.testing.assert_allclose(array.astype(np.float64), expected_array.astype(np.float64), rtol=1.6e-2, atol=1e-2)
    assert [y.dtype for y in expected] == [torch.float32, torch.bfloat16, torch.float32, torch.bfloat16]


# operators that autocast reaches in their parts only, of float32 or of what a product gave in bfloat16
COMPOSED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "einsum": lambda x, y: torch.einsum("bij,bkj->bik", y.float(), x),
    "einsum of two dtypes": lambda x, y: torch.einsum("bij,bkj->bik", y, x),
    "einsum of a list": lambda x, y: torch.einsum("bij,bkj->bik", [y, x]),
    "einsum by axes": lambda x, y: torch.einsum(y, [..., 0, 1], x, [..., 2, 1], [..., 0, 2]),
    "einsum by axes, in order": lambda x, y: torch.einsum(y, [0, 1, 2], x, [0, 3, 2]),
    "einsum without a sum": lambda x, y: torch.einsum("bij,bkj,bij->bikj", x, y, y),
    "tensordot": lambda x, y: torch.tensordot(y.float(), x, dims=([2], [1])),
    "tensordot of one axis": lambda x, y: torch.tensordot(x[0], x[1], 1),
    "inner": lambda x, y: torch.inner(x[0], x[1]),
    "inner with a number": lambda x, y: x.inner(x.sum()),
    "matrix_power": lambda x, y: torch.linalg.matrix_power(x, 3) + x.matrix_power(2),
    "multi_dot": lambda x, y: torch.linalg.multi_dot([x[0], x[1], x[0]]),
    "chain_matmul": lambda x, y: torch.chain_matmul(x[0], x[1], x[0]),
    "bilinear": lambda x, y: F.bilinear(x, x, x[:, None, 0].expand(-1, 4, -1).contiguous(), x[0, 0, :2]),
    "matmul": lambda x, y: torch.linalg.matmul(x, x),
    "cov": lambda x, y: torch.cov(x[0]),
    "pad": lambda x, y: F.pad(y, (1, 2), mode="reflect"),
    "pad with zeros": lambda x, y: F.pad(y, (1, 2)),
}


class Composed(nn.Module):
    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.function(x, self.inner(x))


@pytest.mark.filterwarnings("ignore:.*chain_matmul is deprecated")
@pytest.mark.parametrize("name", COMPOSED)
@pytest.mark.every(18)
def test_autocast_reaches_the_parts_of_operators(name: str) -> None:
    torch.manual_seed(0)
    module, x = Composed(COMPOSED[name]), torch.randn(2, 4, 4)
    expected, actual = as_array(module(x)), from_torch(module, (x,))(x)
    assert actual.dtype == expected.dtype
    expected, actual = (array.astype(np.float64) for array in (expected, actual))
    scale = np.abs(expected).max()
    np.testing.assert_allclose(actual / scale, expected / scale, atol=1e-5)


class RecurrentInAutocast(nn.Module):
    """A recurrent layer of float32, or of what a product gave in bfloat16."""

    def __init__(self, layer: nn.Module, behind: bool) -> None:
        super().__init__()
        self.before = nn.Linear(4, 4) if behind else nn.Identity()
        self.layer = layer

    def forward(self, x: Tensor) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.layer(self.before(x))


@pytest.mark.parametrize("behind", [False, True], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "RNNCell"])
@pytest.mark.every(12)
def test_recurrent_layers_in_an_autocast_region(kind: str, behind: bool) -> None:
    torch.manual_seed(0)
    options = {} if kind.endswith("Cell") else {"batch_first": True, "bidirectional": True}
    x = torch.randn((3, 4) if kind.endswith("Cell") else (3, 5, 4))
    module = RecurrentInAutocast(getattr(nn, kind)(4, 6, **options), behind)
    if kind == "LSTM" and not behind and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        pytest.skip("torch has no LSTM in bfloat16 for this CPU")
    expected = [as_array(tensor) for tensor in pytree.tree_leaves(module(x))]
    program = from_torch(module, (x,))
    results, gradients = program.value_and_grad(x)
    for expected_array, actual_array in zip(expected, pytree.tree_leaves(results), strict=True):
        assert actual_array.dtype == expected_array.dtype
        np.testing.assert_allclose(actual_array.astype(np.float64), expected_array.astype(np.float64), atol=2e-2)
    compiled, others = runtime.compile(program, "cpu").value_and_grad(x)
    for compiled_array, interpreted_array in zip(
        pytree.tree_leaves(compiled), pytree.tree_leaves(results), strict=True
    ):
        np.testing.assert_allclose(compiled_array.astype(np.float64), interpreted_array.astype(np.float64), atol=1e-2)
    for name, gradient in gradients.parameters.items():
        scale = np.abs(gradient).max()
        np.testing.assert_allclose(others.parameters[name], gradient, atol=2e-2 * scale)


class FixedInAutocast(nn.Module):
    """What is computed without gradients within an autocast region: of a parameter, in place and not, and of a view."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([[1.0, -2.0], [3.0, 0.5]]))

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x * self.weight
            with torch.no_grad():
                size = self.weight.abs().sum() + 1.0
                size.mul_(2.0)
                turned = self.weight.T
            with torch.enable_grad():
                return y / size + turned


def test_what_has_no_gradient_in_an_autocast_region_has_none_in_the_program() -> None:
    module, x = FixedInAutocast(), torch.tensor([[0.5, 1.0], [2.0, -1.0]])
    result = module(x)
    result.sum().backward()
    outputs, gradients = from_torch(module, (x,)).value_and_grad(x)
    np.testing.assert_allclose(outputs, as_array(result), rtol=1e-6)
    np.testing.assert_allclose(gradients.parameters["weight"], as_array(module.weight.grad), rtol=1e-6)
