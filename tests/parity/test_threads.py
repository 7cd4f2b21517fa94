"""Capture and comparison in several threads at once."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from cellbridge import converter, parity


class Network(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(4, width)
        self.norm = nn.BatchNorm1d(width)
        self.last = nn.Linear(width, 4)

    def forward(self, x: torch.Tensor) -> Any:
        return self.last(torch.relu(self.norm(self.first(x))))


def in_threads(count: int, work: Callable[[int], Any]) -> list[Any]:
    results: list[Any] = [None] * count
    together = threading.Barrier(count)

    def run(number: int) -> None:
        together.wait()
        try:
            results[number] = work(number)
        except BaseException as error:  # noqa: BLE001 - shown by the caller
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.every(2)
def test_programs_are_captured_in_threads(train: bool) -> None:
    modules = [Network(width).train(number % 2 == 0) for number, width in enumerate((3, 5, 7, 9))]
    x = torch.randn(6, 4)
    programs = in_threads(4, lambda i: converter.from_torch(modules[i], (x,), train=train))
    for number, program in enumerate(programs):
        assert not isinstance(program, BaseException), program
        assert program.parameters["first.weight"].data.shape == (3 + 2 * number, 4)
        assert modules[number].training == (number % 2 == 0)


def test_comparisons_and_captures_in_threads() -> None:
    modules = [Network(width).eval() for width in (3, 5, 7)]
    x = torch.randn(6, 4)
    filters, dtype = list(warnings.filters), torch.get_default_dtype()

    def work(number: int) -> Any:
        if number == 2:
            return converter.from_torch(modules[2], (x,))
        return parity.check(modules[number], (x,))

    first, second, program = in_threads(3, work)
    for report in (first, second):
        assert not isinstance(report, BaseException), report
        assert report.ok
    assert not isinstance(program, BaseException), program
    assert warnings.filters == filters
    assert torch.get_default_dtype() == dtype
