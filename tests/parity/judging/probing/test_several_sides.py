"""Probes of several sides: each side is judged on its own, though names of probes are the same."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from cellbridge.parity.judging.judging import judge_sides
from cellbridge.parity.judging.probing.plan import probes
from cellbridge.parity.judging.probing.probe import Probe
from cellbridge.parity.options import Options
from cellbridge.parity.report.report import Report
from cellbridge.parity.sides.torch_side import TorchSide
from cellbridge.parity.support.progress import NoProgress

pytestmark = pytest.mark.probes


class At(nn.Module):
    """Its input, but for one value at which it may be off."""

    def __init__(self, switch: float, off: float = 0.0) -> None:
        super().__init__()
        self.switch, self.off = switch, off

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.where(x == self.switch, x + self.off, x)


def judged(*candidates: nn.Module) -> Report:
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    options = Options(probe=True, diagnose_seconds=0)
    reference = TorchSide.of_options("reference", nn.Identity(), (x,), {}, options)
    sides = [
        TorchSide.of_options(f"side {number}", module, (x,), {}, options) for number, module in enumerate(candidates)
    ]
    return judge_sides(reference, sides, options, NoProgress(), [reference, *sides])


def test_a_side_is_judged_at_its_own_switches() -> None:
    """The second side's fault shows at a number that nothing in the first compares with."""
    assert judged(At(1.5), At(2.5)).ok
    alone = judged(At(2.5, off=1.0))
    assert alone.failed
    both = judged(At(1.5), At(2.5, off=1.0))
    failing = {c.side for cell in both.cells.values() for c in cell.failures}
    assert failing == {"side 1"}


def test_a_run_of_the_reference_serves_sides_that_are_asked_the_same() -> None:
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    reference, first, second, third = (
        TorchSide.of_options("side", module, (x,), {}, Options())
        for module in (nn.Linear(3, 3), At(1.5), At(1.5), At(2.5))
    )
    planned, of_second, of_third = (list(probes(reference, side)) for side in (first, second, third))
    assert len(planned) > 20
    assert all(map(Probe.asks_the_same, planned, of_second))
    differing = [
        probe.name for probe, another in zip(planned, of_third, strict=True) if not probe.asks_the_same(another)
    ]
    assert differing
    assert all("at values at which operations switch" in name for name in differing)
