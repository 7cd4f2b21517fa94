"""Recorded steps of training are judged one after another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from cellbridge import parity
from cellbridge.parity.jobs.training.training_config import TrainingConfig
from cellbridge.parity.report.report import Report
from cellbridge.recorder import Recorder
from cellbridge.runtime.errors import UsageError

BATCHES = [torch.randn(6, 5, generator=torch.Generator().manual_seed(seed)) for seed in range(3)]


def make() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 2))


def record_reference(path: Path, **config: object) -> None:
    training = TrainingConfig(**{"steps": 3, "optimizer": "adamw", "lr": 0.01, **config})  # type: ignore[arg-type]
    others = [((batch,), {}) for batch in BATCHES[1:]]
    parity.record(make(), (BATCHES[0],), path, training=training, more_inputs=others, loss=lambda out: out.sum())


def record_script(path: Path, change: Callable[[nn.Module], None] | None = None, **settings: float) -> None:
    """Record a training loop written by hand."""
    module = make()
    if change is not None:
        change(module)
    optimizer = torch.optim.AdamW(module.parameters(), **{"lr": 0.01, **settings})
    with Recorder(path, framework="torch", mode="train") as recorder:
        for batch in BATCHES:
            optimizer.zero_grad()
            with recorder.torch(module):
                module(batch).sum().backward()
            optimizer.step()
            recorder.step()
        for name, parameter in module.named_parameters():
            recorder.parameter(name, parameter)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("steps") / "ref.rec"
    record_reference(path)
    return path


def judged(reference: Path, candidate: Path) -> tuple[Report, str]:
    report = parity.judge(reference, candidate)
    return report, " ".join(report.notes)


def test_a_loop_written_by_hand_agrees_in_every_step(reference: Path, tmp_path: Path) -> None:
    record_script(tmp_path / "other.rec")
    report, notes = judged(reference, tmp_path / "other.rec")
    assert report.ok, str(report)
    assert {c.input for cell in report.cells.values() for c in cell.comparisons} == {1, 2, 3, 4}
    assert "differs" not in notes


def test_another_learning_rate_shows_in_the_parameters_after_the_first_step(reference: Path, tmp_path: Path) -> None:
    record_script(tmp_path / "bad.rec", lr=0.0101)
    report, notes = judged(reference, tmp_path / "bad.rec")
    assert set(report.failing) == {"0", "1", "3"}
    assert {c.kind for path in report.failing for c in report.cells[path].failures} == {"parameter"}
    assert "the parameters differ first after training step 1" in notes


def test_another_decay_of_the_second_moment_shows_after_the_second_step(reference: Path, tmp_path: Path) -> None:
    record_script(tmp_path / "bad.rec", betas=(0.9, 0.99))  # type: ignore[arg-type]
    report, notes = judged(reference, tmp_path / "bad.rec")
    assert not report.ok
    assert "the parameters differ first after training step 2" in notes


def test_a_wrong_cell_is_placed_in_the_first_step(reference: Path, tmp_path: Path) -> None:
    def change(module: nn.Module) -> None:
        module[1].momentum = 0.9  # type: ignore[index]

    record_script(tmp_path / "bad.rec", change)
    report, notes = judged(reference, tmp_path / "bad.rec")
    assert report.failing == ["1"]
    assert "training step 1 is the first that differs" in notes


@pytest.mark.parametrize("config", [{"clip_norm": 0.5}, {"frozen": ["0.*"]}, {"optimizer": "nesterov"}])
@pytest.mark.every(3)
def test_settings_of_training_are_those_of_torch(tmp_path: Path, config: dict[str, object]) -> None:
    record_reference(tmp_path / "a.rec", **config)
    record_reference(tmp_path / "b.rec")
    report, _ = judged(tmp_path / "a.rec", tmp_path / "b.rec")
    assert not report.ok


def test_the_parameters_in_float64_are_not_rounded_between_steps(reference: Path) -> None:
    from cellbridge.parity.checking.recordings.recording import open_recording

    last = open_recording(reference).run("float64", 3).parameters["0.weight"]
    assert last.dtype == np.float64
    assert np.any(last != last.astype(np.float32))


def test_the_module_is_left_as_it_was(tmp_path: Path) -> None:
    module = make().eval()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    parity.record(module, (BATCHES[0],), tmp_path / "a.rec", training=TrainingConfig(steps=2))
    assert not module.training
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_what_steps_do_not_record_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="without a loss scale"):
        record_reference(tmp_path / "a.rec", loss_scale=8.0)
    with pytest.raises(UsageError, match="nothing to train"):
        record_reference(tmp_path / "b.rec", frozen=["*"])


def test_other_numbers_of_steps_are_said(reference: Path, tmp_path: Path) -> None:
    record_reference(tmp_path / "short.rec", steps=1)
    report, notes = judged(reference, tmp_path / "short.rec")
    assert report.ok
    assert "different numbers of training steps: ref.rec has 4, short.rec has 2" in notes
