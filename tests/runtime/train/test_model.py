"""`Model`, its callbacks and its metrics."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import cellbridge.runtime as ms
from cellbridge.runtime import nn
from cellbridge.runtime.train import (
    Accuracy,
    Callback,
    CheckpointConfig,
    LossMonitor,
    Model,
    ModelCheckpoint,
    TimeMonitor,
)

GENERATOR = np.random.default_rng(0)
INPUTS = GENERATOR.standard_normal((6, 8, 4)).astype(np.float32)
DATA = [(x, (x.sum(1) > 0).astype(np.int32)) for x in INPUTS]


def made(**more):
    ms.set_seed(0)
    net = nn.Dense(4, 2)
    return Model(net, nn.CrossEntropyLoss(), nn.Momentum(net.trainable_params(), 0.2, 0.9), **more)


def test_it_learns_and_is_judged():
    model = made(metrics={"accuracy", "loss"})
    before = model.eval(DATA)
    model.train(20, DATA)
    after = model.eval(DATA)
    assert after["accuracy"] > 0.95
    assert after["loss"] < before["loss"]
    given = Model(model.network, model.loss_fn, metrics={"right": Accuracy()})
    assert given.eval(DATA) == {"right": after["accuracy"]}
    assert model.predict(DATA[0][0]).shape == (8, 2)
    assert not model.network.training


def test_its_steps_are_those_of_a_loop():
    model, by_loop = made(), made()
    model.train(2, DATA)
    step = nn.TrainOneStepCell(nn.WithLossCell(by_loop.network, by_loop.loss_fn), by_loop.optimizer).set_train()
    for _ in range(2):
        for x, y in DATA:
            step(ms.Tensor(x), ms.Tensor(y))
    np.testing.assert_array_equal(model.network.weight.asnumpy(), by_loop.network.weight.asnumpy())


def test_losses_and_times_are_printed(capsys):
    made().train(2, DATA, callbacks=[LossMonitor(4), TimeMonitor()])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in lines if line.startswith("epoch")] == [
        "epoch: 1 step: 4", "epoch: 2 step: 2", "epoch: 2 step: 6",
    ]  # fmt: skip
    times = [line for line in lines if re.fullmatch(r"Train epoch time: [\d.]+ ms, per step time: [\d.]+ ms", line)]
    assert len(times) == 2


def test_a_loss_that_is_not_finite_ends_it():
    with pytest.raises(ValueError, match="epoch: 1 step: 1, the loss is nan"):
        made().train(1, [(np.full((8, 4), np.nan, np.float32), DATA[0][1])], LossMonitor())


def test_checkpoints(tmp_path: Path):
    model = made()
    saving = ModelCheckpoint("net", tmp_path / "out", CheckpointConfig(save_checkpoint_steps=4, keep_checkpoint_max=2))
    model.train(2, DATA[:5], saving)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["net-2_3.ckpt", "net-2_5.ckpt"]
    assert saving.latest_ckpt_file_name.endswith("net-2_5.ckpt")
    loaded = ms.load_checkpoint(saving.latest_ckpt_file_name)
    np.testing.assert_array_equal(loaded["weight"].asnumpy(), model.network.weight.asnumpy())
    with pytest.raises(ValueError, match="must be a name, not a path"):
        ModelCheckpoint("../net")


def test_a_callback_stops_it():
    class Stops(Callback):
        def __init__(self) -> None:
            self.calls: list[str] = []

        def begin(self, run_context):
            self.calls.append("begin")

        def step_end(self, run_context):
            self.calls.append(f"step {run_context.original_args().cur_step_num}")
            if len(self.calls) == 3:
                run_context.request_stop()

        def end(self, run_context):
            self.calls.append("end")

    stops = Stops()
    made().train(5, DATA, callbacks=stops)
    assert stops.calls == ["begin", "step 1", "step 2", "end"]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: Model(nn.Dense(4, 2)).train(1, DATA), ValueError, "an optimizer is needed"),
        (lambda: made().eval(DATA), ValueError, "metrics are needed"),
        (lambda: made().train(2, iter(DATA)), ValueError, "used up after one epoch"),
        (lambda: made().train(1, DATA, callbacks=[print]), TypeError, "must be Callbacks"),
        (lambda: Model(print), TypeError, "must be a Cell"),
    ],
)
def test_mistakes_are_told(call, error, words):
    with pytest.raises(error, match=words):
        call()


class Heard(Callback):
    """Notes what it is told."""

    def __init__(self):
        self.told = []

    def __getattribute__(self, name):
        if not name.startswith("on_"):
            return super().__getattribute__(name)

        def note(context):
            args = context.original_args()
            assert args.mode == name.split("_")[1]
            self.told.append((name, args.cur_step_num))

        return note


def test_callbacks_of_an_evaluation():
    model, heard = made(metrics={"accuracy", "loss"}), Heard()
    expected = model.eval(DATA)
    assert model.eval(DATA[:6], callbacks=[heard]) == expected
    steps = [(f"on_eval_step_{part}", i) for i in range(1, 7) for part in ("begin", "end")]
    assert heard.told == [
        ("on_eval_begin", 0), ("on_eval_epoch_begin", 0), *steps, ("on_eval_epoch_end", 6), ("on_eval_end", 6)
    ]  # fmt: skip


def test_fit_trains_and_judges(capsys):
    model, without_eval = made(metrics={"accuracy"}), made(metrics={"accuracy"})
    records = []

    class Results(Callback):
        def on_train_epoch_end(self, run_context):
            args = run_context.original_args()
            records.append((args.cur_epoch_num, dict(args.eval_results), model.network.training))

    model.fit(4, DATA, DATA, valid_frequency=2, callbacks=[LossMonitor(100), Results()])
    without_eval.train(4, DATA)
    np.testing.assert_array_equal(model.network.weight.asnumpy(), without_eval.network.weight.asnumpy())
    assert [number for number, results, _ in records if results] == [2, 4]
    assert records[-1][1] == model.eval(DATA)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Eval result: epoch ")]
    assert [line.split(",")[0] for line in lines] == ["Eval result: epoch 2", "Eval result: epoch 4"]
    model.fit(1, DATA)  # nothing to judge by
    records.clear()
    model.fit(3, DATA, DATA, valid_frequency=[1, 3], callbacks=Results())
    assert [number for number, results, _ in records if results] == [1, 3]


def test_fit_is_used_wrongly():
    with pytest.raises(ValueError, match="metrics are needed"):
        made().fit(1, DATA, DATA)
    for frequency in (0, [], [0], "2"):
        with pytest.raises(ValueError, match="'valid_frequency' must be a positive int"):
            made(metrics={"accuracy"}).fit(1, DATA, DATA, valid_frequency=frequency)
    with pytest.raises(ValueError, match="an optimizer is needed"):
        Model(nn.Dense(4, 2), nn.CrossEntropyLoss(), metrics={"loss"}).fit(1, DATA, DATA)


def test_monitors_and_checkpoints_leave_an_evaluation_alone(tmp_path, capsys):
    saver = ModelCheckpoint(directory=tmp_path)
    made(metrics={"loss"}).eval(DATA, callbacks=[LossMonitor(), TimeMonitor(), saver])
    assert not list(tmp_path.iterdir())
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()] == ["Eval epoch time"]
