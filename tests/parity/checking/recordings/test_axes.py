"""Maps as long in every direction as they have channels: their values show which axis holds the channels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from cellbridge import parity
from cellbridge.parity.checking.recordings.axes import Pair, views_of
from cellbridge.parity.checking.recordings.views import WHOLE, View
from cellbridge.recorder import Recorder

LAST = View((), (0, 3, 1, 2))
GENERATOR = np.random.default_rng(0)
CUBE = GENERATOR.standard_normal((2, 4, 4, 4))
NOISE = GENERATOR.standard_normal((2, 4, 4, 4))


def pair(reference: Any, candidate: Any, *, known: bool = True) -> Pair:
    return Pair(reference, candidate.shape, lambda: candidate if known else None)


def to_last(array: Any) -> Any:
    return np.moveaxis(array, 1, -1)


OTHERS = {
    "unlike": pair(np.ones((2, 3, 4, 4)), np.ones((2, 4, 4, 3))),
    "like": pair(np.ones((2, 3, 4, 4)), np.ones((2, 3, 4, 4))),
}


@pytest.mark.parametrize(
    ("candidate", "others", "expected"),
    [
        (CUBE, [], WHOLE),
        (CUBE, ["unlike"], WHOLE),
        (to_last(CUBE), [], LAST),
        (to_last(CUBE), ["like"], LAST),
        (to_last(1.05 * CUBE), [], LAST),  # a small fault
        (NOISE, ["unlike"], LAST),  # the values agree in neither order: other tensors decide
        (NOISE, ["like"], WHOLE),
        (NOISE, ["like", "unlike"], None),
        (NOISE, [], None),
        (0 * CUBE, ["unlike"], LAST),
    ],
)
def test_the_order_of_axes(candidate: Any, others: list[str], expected: View | None) -> None:
    pairs = {("", "output"): pair(CUBE, candidate)} | {(f"other.{name}", "output"): OTHERS[name] for name in others}
    views, unknown = views_of(pairs)
    assert views.get(("", "output")) == expected
    assert unknown == ([("", "output")] if expected is None else [])


def test_the_other_end_of_a_cell_counts_most() -> None:
    pairs = {
        ("conv", "input"): pair(CUBE, to_last(CUBE)),
        ("conv", "output"): pair(CUBE, NOISE),
        ("linear", "output"): OTHERS["like"],
    }
    assert views_of(pairs)[0]["conv", "output"] == LAST


def test_values_that_were_not_recorded_leave_tokens_as_they_are() -> None:
    tokens = CUBE[0]
    assert views_of({("", "output"): pair(tokens, tokens, known=False)}) == ({}, [])


class Images(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = (nn.Conv2d(4, 4, 3, padding=1) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv2(self.conv1(x).relu())


def record(path: Path, module: Images, x: torch.Tensor, wrong: str) -> None:
    """Record the network with its channels last; the wrong Cell has its rows and columns exchanged."""

    def run(cell: str, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = getattr(module, cell)(x)
        return y.mT if cell == wrong else y

    with Recorder(path) as recorder, torch.no_grad():
        hidden = run("conv1", x)
        outputs = run("conv2", hidden.relu())
        for cell, given, result in (("", x, outputs), ("conv1", x, hidden), ("conv2", hidden.relu(), outputs)):
            given, result = (value.movedim(1, -1).numpy() for value in (given, result))
            recorder.cell(cell, inputs={"input" if cell else "x": given}, outputs=result)


@pytest.mark.parametrize("wrong", ["", "conv1", "conv2"])
@pytest.mark.every(2)
def test_maps_of_equal_axes_are_compared_in_the_reference_s_order(wrong: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    module, x = Images().eval(), torch.randn(2, 4, 4, 4)
    record(tmp_path / "port.rec", module, x, wrong)
    report = parity.compare(module, tmp_path / "port.rec", (x,), diagnose_seconds=0)
    assert report.failing == ([wrong] if wrong else []), str(report)
    assert "names by habit: images with their channels last" in report.notes


def test_an_order_that_nothing_shows_is_not_known(tmp_path: Path) -> None:
    module, x = nn.Sequential(nn.Embedding(5, 64), nn.Unflatten(1, (4, 4, 4))), torch.tensor([1, 3])
    with Recorder(tmp_path / "port.rec") as recorder:
        recorder.cell("", inputs=x.numpy(), outputs=NOISE.astype(np.float32))
        recorder.cell("1", inputs=module[0](x).detach().numpy(), outputs=NOISE.astype(np.float32))
    report = parity.compare(module, tmp_path / "port.rec", (x,), diagnose_seconds=0)
    assert report.failing == [""]
    assert any("which axis holds the channels is not known in (root) and 1" in note for note in report.notes)
