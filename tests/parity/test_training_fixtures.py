"""Training on every fixture with every optimizer: torch, the interpreter and the compiled step agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cellbridge import parity
from cellbridge.parity.inputs import model_file
from cellbridge.parity.jobs.training.training_config import OPTIMIZERS
from cellbridge.runtime.amp import DynamicLossScaler

FIXTURES = Path(__file__).parents[2] / "fixtures"
FROZEN = {
    "transformer_encoder": "layers.0.*",
    "transformer_encoder_mha": "encoder.layers.0.*",
    "lstm_classifier": "lstm.*_l0*",
    "unet": "down1.*",
    "decoder_lm": "layers.0.*",
    "resnet18": "layer1.*",
    "minilm": "embeddings.*",
}
BY_AUTOCAST = [name for name in FROZEN if name != "lstm_classifier"]  # torch has no LSTM in half precision on the CPU


def check(name: str, *, losses: float = 1.0, **options: Any) -> parity.TrainingReport:
    """The report on two steps; the loss is `losses` times that of the fixture."""
    model = model_file.load(str(FIXTURES / f"{name}.py"))
    of_fixture = model.loss
    loss = of_fixture
    if losses != 1.0:
        from cellbridge.parity.jobs.training.loss_network import mean_square

        def loss(outputs: Any) -> Any:
            return (of_fixture or mean_square)(outputs) * losses

    report = parity.check_training(
        model.module, model.args, model.kwargs, loss=loss, model=name, **{"steps": 2, **options}
    )
    report.raise_if_failed()
    return report


@pytest.mark.slow
def test_a_classifier_with_everything() -> None:
    how = {"loss_scale": "dynamic", "clip_norm": 0.1, "accumulate": 2, "frozen": [FROZEN["lstm_classifier"]]}
    report = check("lstm_classifier", weight_decay=0.01, **how)
    trained = {c.tensor for c in report.comparisons if c.kind == "clipped gradient"}
    assert "lstm.weight_ih_l1" in trained
    assert "lstm.weight_ih_l0" not in trained


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", FROZEN)
def test_every_optimizer(name: str, optimizer: str) -> None:
    check(name, optimizer=optimizer, weight_decay=0.01, steps=3)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1000.0, "dynamic"])
@pytest.mark.parametrize("name", FROZEN)
def test_frozen_parameters_loss_scale_clipping_and_accumulation(name: str, scale: Any) -> None:
    report = check(name, frozen=[FROZEN[name]], loss_scale=scale, clip_norm=0.1, accumulate=2)
    assert any(c.kind == "clipped gradient" for c in report.comparisons)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [2.0**127, DynamicLossScaler(2.0**127, 2, 2)], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", FROZEN)
def test_steps_that_overflow(name: str, scale: Any) -> None:
    report = check(name, losses=1e6, loss_scale=scale)
    assert "was skipped on every side" in str(report)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", BY_AUTOCAST)
def test_half_precision(name: str, dtype: str) -> None:
    check(name, dtype=dtype, loss_scale="dynamic", clip_norm=1.0)
