"""Random numbers that a model of its own draws: new ones in each run, at the place that is given."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
import torch
from torch import nn

from cellbridge.converter import from_torch
from cellbridge.runtime.train_step.draws import Draws, independent_draws


def test_masks_are_drawn_anew_in_each_run() -> None:
    network = nn.Sequential(nn.Dropout(0.25), nn.Dropout(0.5)).train()
    program = from_torch(network, (torch.ones(40, 50),), train=True)
    nodes = independent_draws(program)
    assert len(nodes) == 2
    places = {node: ort.OrtValue.ortvalue_from_numpy(np.full((40, 50), 7, np.float32)) for node in nodes}
    draws = Draws(program, places, "cpu")
    runs = []
    for _ in range(2):
        draws.run()
        runs.append([place.numpy().copy() for place in places.values()])
    for run in runs:
        for mask, kept in zip(run, (0.75, 0.5), strict=True):
            assert set(np.unique(mask)) == {0, 1}
            assert abs(mask.mean() - kept) < 0.06  # five standard deviations
    for before, after in zip(*runs, strict=True):
        assert (before != after).mean() > 0.2


def test_draws_that_need_an_operand_or_a_symbolic_size_stay() -> None:
    class Drawing(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.bernoulli(x) + torch.rand_like(x)

    x = torch.full((4, 3), 0.5)
    assert [node.op for node in independent_draws(from_torch(Drawing(), (x,)))] == ["uniform"]
    assert not independent_draws(from_torch(Drawing(), (x,), dynamic_shapes=({0: "batch"},)))
