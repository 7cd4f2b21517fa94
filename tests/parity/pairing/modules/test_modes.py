"""Modes of parts are kept as they are given, and compared."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from cellbridge import parity
from cellbridge.converter import to_onnx
from cellbridge.converter.capture.export import from_torch
from cellbridge.parity.results.structure import MODE
from cellbridge.runtime import nn as cells

X = torch.randn(4, 3, 5, 5, generator=torch.Generator().manual_seed(0))


def network() -> nn.Sequential:
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5), nn.Conv2d(4, 2, 1)
    return nn.Sequential(*layers)


def left_in_train_mode(path: str) -> nn.Module:
    module = network().eval()
    module.get_submodule(path).train()
    return module


@pytest.mark.parametrize("path", ["1", "3"])
@pytest.mark.every(2)
def test_a_part_that_was_left_in_train_mode_fails(path: str) -> None:
    report = parity.compare(network().eval(), left_in_train_mode(path), (X,))
    assert report.failing == [path]
    text = f"{path} runs in train mode in the candidate, and in eval mode in the reference"
    assert [(difference.kind, difference.text) for difference in report.structure] == [(MODE, text)]
    assert text in report.cells[path].explanations


@pytest.mark.slow
@pytest.mark.causes
def test_the_mode_is_named_as_the_cause() -> None:
    report = parity.compare(network().eval(), left_in_train_mode("1"), (X,))
    (cause,) = report.cells["1"].causes
    assert cause.summary == "it runs in train mode in the candidate, in eval mode in the reference"
    assert cause.fix == "call eval() of this module of the candidate"


def test_on_both_sides_it_passes_with_its_batch_statistics() -> None:
    module = left_in_train_mode("1")
    for report in (parity.compare(module, left_in_train_mode("1"), (X,)), parity.check(module, (X,))):
        report.raise_if_failed()
        assert not report.train
        assert "in train mode, as set in the module, while the others are in eval mode: 1" in report.notes
        assert any(c.kind == "buffer update" for c in report.cells["1"].comparisons)


def test_eval_mode_can_be_forced() -> None:
    report = parity.compare(left_in_train_mode("1"), network().eval(), (X,), train=False)
    assert report.ok
    assert report.structure == []
    (note,) = report.notes
    assert note.startswith("put into eval mode, though in train mode in the given module")


def test_modules_in_one_mode_throughout_run_in_eval_mode() -> None:
    for reference, candidate in ((network(), network().eval()), (network().eval(), network())):
        report = parity.compare(reference, candidate, (X,))
        assert report.ok
        assert not report.train
        assert report.notes == []


def frozen() -> nn.Module:
    module = network()
    module[1].eval()
    return module


def test_a_part_that_is_frozen_makes_it_train_mode() -> None:
    report = parity.check(frozen(), (X,))
    assert report.ok
    assert report.train
    assert "in eval mode, as set in the module, while the others are in train mode: 1" in report.notes
    assert parity.compare(frozen(), network(), (X,)).failing == ["1"]


def test_a_port_is_put_into_the_mode_of_its_module() -> None:
    port = cells.SequentialCell(
        [
            cells.Conv2d(3, 4, 3, pad_mode="valid", has_bias=True),
            cells.BatchNorm2d(4),
            cells.ReLU(),
            cells.Dropout(p=0.5),
            cells.Conv2d(4, 2, 1, has_bias=True),
        ]
    )
    assert parity.compare(frozen(), port, (X,)).failing == ["1"]
    port.set_train()
    port[1].set_train(False)
    assert parity.compare(frozen(), port, (X,)).ok


def test_an_onnx_model_is_for_inference() -> None:
    model = to_onnx(from_torch(network().eval(), (X,)))
    report = parity.compare(frozen(), model, (X,))
    assert report.ok
    assert not report.train
