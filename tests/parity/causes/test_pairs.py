"""A parameter that is related otherwise and another formula in one Cell are found together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cellbridge import parity
from cellbridge.recorder import Recorder

pytestmark = pytest.mark.causes


class Layer(nn.Module):
    """One Cell, of which nothing inside is recorded."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(6, 6)), nn.Parameter(torch.randn(6))

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(F.gelu(F.linear(x, self.weight, self.bias)), (6,), eps=1e-3)


Port = Callable[[Tensor, Tensor, Tensor], Tensor]


def causes(folder: Path, port: Port, change: Callable[[Tensor], Tensor] | None = None) -> list[Any]:
    """Return the causes of what a port records: its outputs, and its parameters, of which the weight is changed."""
    torch.manual_seed(0)
    module, x = Layer().eval(), torch.randn(4, 6)
    weight = module.weight.detach() if change is None else change(module.weight.detach())
    with Recorder(folder / "port.rec") as recorder:
        for dtype in (torch.float64, torch.float32):
            given, *parameters = (tensor.detach().to(dtype) for tensor in (x, weight, module.bias))
            with recorder.run(str(dtype).removeprefix("torch.")):
                recorder.cell("", inputs={"x": given.numpy()}, outputs=port(given, *parameters).numpy())
                for name, array in zip(("weight", "bias"), parameters, strict=True):
                    recorder.parameter(name, array.numpy())
    report = parity.compare(module, folder / "port.rec", (x,))
    assert not report.ok
    return report.cells[""].causes


def written(y: Tensor, eps: float = 1e-3, approximate: str = "none") -> Tensor:
    return F.layer_norm(F.gelu(y, approximate=approximate), (6,), eps=eps)


READ = "weight is read transposed in the candidate"
STORED = "weight is transposed in the candidate"
TANH = "approximate is 'tanh' in the candidate"
EPS = "eps is 1e-06 in the candidate"


@pytest.mark.parametrize(
    ("port", "change", "expected"),
    [
        (lambda x, w, b: written(x @ w + b), None, [READ]),
        (lambda x, w, b: written(x @ w.T + b, approximate="tanh"), None, [TANH]),
        (lambda x, w, b: written(x @ w + b, approximate="tanh"), None, [READ, TANH]),
        (lambda x, w, b: written(x @ w + b, eps=1e-6), None, [READ, EPS]),
        (lambda x, w, b: F.layer_norm(torch.relu(x @ w + b), (6,), eps=1e-3), None, [READ, "relu"]),
        (lambda x, w, b: written(x @ w.T + b, approximate="tanh"), lambda w: w.T.contiguous(), [STORED, TANH]),
        (lambda x, w, b: written(x @ w.T + b, eps=1e-6), lambda w: 2 * w, ["weight is multiplied by 2", EPS]),
        (lambda x, w, b: written(torch.cos(x @ w) + b**3, approximate="tanh"), None, []),  # no change is proved
    ],
)
@pytest.mark.every(4)
def test_a_relation_of_a_parameter_and_a_formula(
    port: Port, change: Callable[[Tensor], Tensor] | None, expected: list[str], tmp_path: Path
) -> None:
    reported_causes = causes(tmp_path, port, change)
    assert [cause.together for cause in reported_causes] == [len(expected)] * len(expected), reported_causes
    for cause, words in zip(reported_causes, expected, strict=True):
        assert words in cause.summary
