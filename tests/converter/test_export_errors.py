"""What torch logs while a module is captured, and what it refuses."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
import torch
from torch import nn

from cellbridge import converter
from cellbridge.runtime.errors import ConversionError


@pytest.mark.parametrize(("asked", "logs"), [("", False), ("/nowhere", True)])
def test_the_structured_trace_is_for_those_who_ask(monkeypatch: pytest.MonkeyPatch, asked: str, logs: bool) -> None:
    monkeypatch.setenv("TORCH_TRACE", asked)
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign]
    log = logging.getLogger("torch.__trace")
    log.addHandler(handler)
    level = log.level
    try:
        converter.from_torch(nn.Linear(2, 2), (torch.ones(1, 2),))
    finally:
        log.removeHandler(handler)
    assert bool(records) == logs
    assert log.level == level


class _Made(nn.Module):
    """Makes a nested tensor in forward."""

    def __init__(self, make: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.make = make

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.make(x).to_padded_tensor(0.0)


NESTED = {
    "offsets": lambda x: torch.nested.nested_tensor_from_jagged(x.flatten(0, 1), torch.tensor([0, 2, 6])),
    "a list": lambda x: torch.nested.nested_tensor([x[0, :2], x[1]], layout=torch.jagged),
    "a list, strided": lambda x: torch.nested.as_nested_tensor([x[0, :2], x[1]]),
    "a list, with gradients": lambda x: torch.nested.as_nested_tensor([x[0, :2], x[1]], layout=torch.jagged),
    "a mask": lambda x: torch._nested_tensor_from_mask(x, torch.ones(2, 3, dtype=torch.bool)),
}


@pytest.mark.parametrize("make", NESTED.values(), ids=NESTED)
def test_nested_tensors_are_refused_plainly(make: Callable[[torch.Tensor], torch.Tensor]) -> None:
    with pytest.raises(ConversionError, match=r"^nested tensors (.|\n)*test_export_errors.py:(.|\n)*what to do: ") as e:
        converter.from_torch(_Made(make), (torch.ones(2, 3, 4),))
    assert "fx" not in str(e.value)


@pytest.mark.parametrize("layout", [torch.jagged, torch.strided])
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_nested_inputs_are_refused_plainly(layout: torch.layout) -> None:
    rows = torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)], layout=layout)
    with pytest.raises(ConversionError, match=r"^nested tensors (.|\n)*what to do: "):
        converter.from_torch(nn.Linear(4, 4), (rows,))
