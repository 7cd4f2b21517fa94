"""What torch logs while a module is captured."""

from __future__ import annotations

import logging

import pytest
import torch
from torch import nn

from cellbridge import converter


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
