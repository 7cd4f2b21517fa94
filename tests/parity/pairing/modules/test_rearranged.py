"""Parameters of other names and layouts in two torch modules, as `weights=` says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.runtime.errors import UsageError

X = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))


class Separate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(4, 4) for _ in range(3))
        self.head = nn.Linear(4, 2)
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: Tensor) -> Tensor:
        weights = (self.query(x) @ self.key(x).T).softmax(-1)
        return self.head(self.norm(weights @ self.value(x)))


class Fused(nn.Module):
    """The same, with one product, a transposed head, and other names."""

    def __init__(self, separate: Separate) -> None:
        super().__init__()
        parts = separate.query, separate.key, separate.value
        self.qkv = nn.Linear(4, 12)
        self.out = nn.Parameter(separate.head.weight.detach().T.clone())
        self.offset = nn.Parameter(separate.head.bias.detach().clone())
        self.norm = nn.BatchNorm1d(4)
        with torch.no_grad():
            self.qkv.weight.copy_(torch.cat([part.weight for part in parts]))
            self.qkv.bias.copy_(torch.cat([part.bias for part in parts]))

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.qkv(x).chunk(3, -1)
        return self.norm((query @ key.T).softmax(-1) @ value) @ self.out + self.offset


def joined(kind: str) -> Any:
    return lambda arrays: np.concatenate([arrays[f"{name}.{kind}"] for name in ("query", "key", "value")])


WEIGHTS = {
    "qkv.weight": joined("weight"),
    "qkv.bias": joined("bias"),
    "out": ("head.weight", "transpose"),
    "offset": "head.bias",
}


def networks() -> tuple[Separate, Fused]:
    torch.manual_seed(0)
    reference = Separate()
    return reference, Fused(reference)


def gradients_of(report: Any) -> set[str]:
    compared = (c for cell in report.cells.values() for c in cell.comparisons)
    return {c.tensor for c in compared if c.kind == "parameter gradient" and c.status == "pass"}


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.every(2)
def test_gradients_are_compared_under_the_names_of_the_reference(train: bool) -> None:
    reference, candidate = networks()
    without = parity.compare(reference, candidate, (X,), train=train)
    assert ("query.weight" in gradients_of(without)) is not train  # in eval mode, by the values that they compute
    report = parity.compare(reference, candidate, (X,), train=train, weights=WEIGHTS)
    report.raise_if_failed()
    assert gradients_of(report) == {name for name, _ in reference.named_parameters()}
    assert not [difference for difference in report.structure if difference.kind == "lone parameter"]


def test_in_a_wrapper_by_its_own_names() -> None:
    class Wrapper(nn.Module):
        def __init__(self, module: nn.Module) -> None:
            super().__init__()
            self.module = module

        def forward(self, x: Tensor) -> Tensor:
            return self.module(x)

    reference, candidate = networks()
    report = parity.compare(
        reference, Wrapper(candidate), (X,), weights={f"module.{name}": form for name, form in WEIGHTS.items()}
    )
    report.raise_if_failed()
    assert "head.weight" in gradients_of(report)


def test_another_value_is_found_in_its_parameter() -> None:
    reference, candidate = networks()
    with torch.no_grad():
        candidate.qkv.weight[5] += 0.01
    report = parity.compare(reference, candidate, (X,), weights=WEIGHTS)
    wrong = {c.tensor for cell in report.cells.values() for c in cell.comparisons if c.kind == "parameter" and c.reason}
    assert not report.ok
    assert wrong <= {"key.weight"}
    assert "key.weight" in {c.tensor for cell in report.cells.values() for c in cell.failures}


def test_a_parameter_that_is_frozen_is_found() -> None:
    reference, candidate = networks()
    candidate.offset.requires_grad_(False)
    report = parity.compare(reference, candidate, (X,), weights=WEIGHTS)
    assert "head.bias" in {c.tensor for cell in report.cells.values() for c in cell.failures}


def test_a_class_may_have_transposed_weights() -> None:
    class Transposed(nn.Module):
        def __init__(self, linear: nn.Linear) -> None:
            super().__init__()
            self.weight = nn.Parameter(linear.weight.detach().T.clone())
            self.bias = nn.Parameter(linear.bias.detach().clone())

        def forward(self, x: Tensor) -> Tensor:
            return F.linear(x, self.weight.T, self.bias)

    reference = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    candidate = nn.Sequential(Transposed(reference[0]), nn.Tanh(), Transposed(reference[2]))
    assert not parity.compare(reference, candidate, (X,)).ok
    weights = {Transposed: {"weight": ("weight", "transpose")}}
    parity.compare(reference, candidate, (X,), weights=weights).raise_if_failed()


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"missing": "head.bias"}, "no Parameter 'missing'"),
        ({"offset": "missing"}, "no parameter or buffer 'missing'"),
        ({"out": "head.weight"}, r"shape \[4, 2\] in the candidate, .* makes \[2, 4\]"),
        ({"offset": 0.0}, "each of two torch modules keeps its own values"),
        ({"offset": lambda arrays: arrays["head.bias"] * 2}, "the function computes"),
    ],
)
def test_what_does_not_fit_is_refused(weights: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parity.compare(*networks(), (X,), weights=weights)
