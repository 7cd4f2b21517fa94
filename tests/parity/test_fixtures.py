"""Every fixture end to end: torch, the interpreter and ONNX Runtime agree."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

from cellbridge import parity
from cellbridge.parity.inputs import model_file

FIXTURES = Path(__file__).parents[2] / "fixtures"
SMALL = ("transformer_encoder", "transformer_encoder_mha", "lstm_classifier", "unet", "decoder_lm")
LARGE = ("resnet18", "minilm")


def slow_but(*quick: str) -> list[Any]:
    """Return all fixtures; those that aren't named are for the slow tests."""
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in (*SMALL, *LARGE)]


@functools.cache
def check(name: str, **options: object) -> parity.Report:
    model = model_file.load(str(FIXTURES / f"{name}.py"))
    return parity.check(
        model.module,
        model.args,
        model.kwargs,
        loss=model.loss,
        dynamic_shapes=model.dynamic_shapes,
        model=name,
        **options,
    )


@pytest.mark.parametrize("name", slow_but(*SMALL))  # the README runs resnet18
@pytest.mark.every(6)
def test_eval_in_float32(name: str) -> None:
    report = check(name)
    report.raise_if_failed()
    judged = [cell for cell in report.cells.values() if cell.comparisons]
    assert {c.side for cell in judged for c in cell.comparisons} == {"interpreter", "onnxruntime"}
    assert any(cell.gradients for cell in judged)


@pytest.mark.parametrize("name", slow_but("lstm_classifier", "unet"))
@pytest.mark.every(2)
def test_eval_in_float64(name: str) -> None:
    check(name, dtype="float64").raise_if_failed()


@pytest.mark.parametrize("name", slow_but("lstm_classifier"))
def test_train(name: str) -> None:
    check(name, train=True).raise_if_failed()


@pytest.mark.parametrize("train", [pytest.param(False, marks=pytest.mark.slow), True], ids=["eval", "train"])
@pytest.mark.parametrize("name", slow_but("lstm_classifier", "unet"))
@pytest.mark.every(2)
def test_round_trip(name: str, train: bool) -> None:
    report = check(name, train=train, round_trip=True)
    report.raise_if_failed()
    ways = {"torch from IR"} if train else {"torch from IR", "torch from ONNX"}
    assert report.sides[2:] == sorted(ways)
    judged = [cell for cell in report.cells.values() if cell.comparisons]
    assert all("torch from IR" in {c.side for c in cell.comparisons} for cell in judged)
    for way in ways:
        kinds = {c.kind for cell in judged for c in cell.comparisons if c.side == way}
        assert {"output", "input gradient" if name == "unet" else "parameter gradient"} <= kinds


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", [*SMALL, "resnet18"])
def test_half_precision(name: str, dtype: str) -> None:
    check(name, dtype=dtype).raise_if_failed()


@pytest.mark.slow
def test_train_mode_compares_statistics() -> None:
    updates = [c for cell in check("resnet18", train=True).cells.values() for c in cell.comparisons]
    assert {c.tensor for c in updates if c.kind == "buffer update"} >= {"bn1.running_mean", "bn1.num_batches_tracked"}
