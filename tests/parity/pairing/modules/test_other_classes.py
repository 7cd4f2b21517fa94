"""Modules of different classes that agree are noted, and the time that probes take is printed."""

from __future__ import annotations

import torch
from torch import nn

from cellbridge import parity

X = torch.rand(4, 6, generator=torch.Generator().manual_seed(0))


def test_torch_classes_that_agree_on_the_given_inputs_are_noted() -> None:
    report = parity.compare(nn.Sequential(nn.ReLU()), nn.Sequential(nn.ReLU6()), (X,), probe=False)
    assert report.ok, str(report)
    (note,) = (note for note in report.notes if "classes" in note)
    assert note == (
        "of different classes, and agree on all that was tried: 0 (ReLU6 in the candidate, ReLU in the reference)"
    )


def test_the_same_classes_and_those_that_fail_are_not_noted() -> None:
    for candidate in (nn.ReLU(), nn.GELU()):
        report = parity.compare(nn.Sequential(nn.ReLU()), nn.Sequential(candidate), (X,), probe=False)
        assert not any("of different classes" in note for note in report.notes)


def test_alike_pairs_are_noted_together() -> None:
    reference, candidate = (nn.Sequential(*(kind() for _ in range(5))) for kind in (nn.ReLU, nn.ReLU6))
    (note,) = parity.compare(reference, candidate, (X,), probe=False).notes
    assert "0 and 4 more (ReLU6 in the candidate" in note


def test_the_time_of_probes_is_printed_and_written() -> None:
    report = parity.compare(nn.ReLU(), nn.ReLU(), (X,), probe=True)
    assert report.probing_seconds > 0
    assert "--no-probe, or probe=False, leaves them out" in " ".join(str(report).split())
    assert report.to_dict()["probing_seconds"] == round(report.probing_seconds, 1)
    without = parity.compare(nn.ReLU(), nn.ReLU(), (X,), probe=False)
    assert "leaves them out" not in " ".join(str(without).split())
