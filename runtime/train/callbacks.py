"""Callbacks, which `Model` calls around epochs and steps: they print losses and times, and save checkpoints."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from .. import checks
from .serialization import save_checkpoint


class RunContext:
    """The context that a callback gets.

    Args:
        original_args: `cur_epoch_num` and `cur_step_num` (from 1, over all epochs), `step_in_epoch`, `epoch_num`,
            `batch_num` (steps per epoch; 0 if unknown), `net_outputs` (the loss), `train_network`, `network`,
            `optimizer`, `mode` ("train"), `eval_results` (from `Model.fit`: the metrics, at the end of an epoch). While
            `Model.eval` runs, `mode` is "eval", `net_outputs` are the outputs of the `eval_network`, and `metrics` is
            set at the end.
    """

    def __init__(self, original_args: SimpleNamespace) -> None:
        self._args = original_args
        self._stop = False

    def original_args(self) -> SimpleNamespace:
        """Return the arguments; see the class."""
        return self._args

    def request_stop(self) -> None:
        """End the training after this step."""
        self._stop = True

    def get_stop_requested(self) -> bool:
        """Whether a callback has requested to stop."""
        return self._stop


class Callback:
    """The base class of callbacks: a subclass overrides the methods it needs. `on_train_begin` calls `begin`, etc."""

    def begin(self, run_context: RunContext) -> None:
        """Called once, before the first epoch."""

    def epoch_begin(self, run_context: RunContext) -> None:
        """Called before each epoch."""

    def epoch_end(self, run_context: RunContext) -> None:
        """Called after each epoch."""

    def step_begin(self, run_context: RunContext) -> None:
        """Called before each step."""

    def step_end(self, run_context: RunContext) -> None:
        """Called after each step."""

    def end(self, run_context: RunContext) -> None:
        """Called once, after the last epoch."""

    def on_train_begin(self, run_context: RunContext) -> None:
        """Called once, before the first epoch of training."""
        self.begin(run_context)

    def on_train_epoch_begin(self, run_context: RunContext) -> None:
        """Called before each epoch of training."""
        self.epoch_begin(run_context)

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """Called after each epoch of training."""
        self.epoch_end(run_context)

    def on_train_step_begin(self, run_context: RunContext) -> None:
        """Called before each step of training."""
        self.step_begin(run_context)

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Called after each step of training."""
        self.step_end(run_context)

    def on_train_end(self, run_context: RunContext) -> None:
        """Called once, after the last epoch of training."""
        self.end(run_context)

    def on_eval_begin(self, run_context: RunContext) -> None:
        """Called once, before the first batch of `Model.eval`."""
        self.begin(run_context)

    def on_eval_epoch_begin(self, run_context: RunContext) -> None:
        """Called before the batches of `Model.eval`."""
        self.epoch_begin(run_context)

    def on_eval_epoch_end(self, run_context: RunContext) -> None:
        """Called after the batches of `Model.eval`."""
        self.epoch_end(run_context)

    def on_eval_step_begin(self, run_context: RunContext) -> None:
        """Called before each batch of `Model.eval`."""
        self.step_begin(run_context)

    def on_eval_step_end(self, run_context: RunContext) -> None:
        """Called after each batch of `Model.eval`."""
        self.step_end(run_context)

    def on_eval_end(self, run_context: RunContext) -> None:
        """Called once, after `Model.eval` has computed the metrics."""
        self.end(run_context)


class LossMonitor(Callback):
    """Prints the loss of every `per_print_times`-th step, and the metrics of `Model.fit` after an epoch.

    Raises:
        ValueError: the loss is NaN or infinite, so training can't continue.
    """

    def __init__(self, per_print_times: int = 1) -> None:
        checks.of_type(per_print_times, "per_print_times", int, of="LossMonitor")
        checks.in_range(per_print_times, "per_print_times", "[0, inf)", of="LossMonitor")
        self.per_print_times = per_print_times

    def step_end(self, run_context: RunContext) -> None:
        """Print the loss."""
        args = run_context.original_args()
        loss = loss_of(args.net_outputs)
        where = f"epoch: {args.cur_epoch_num} step: {args.step_in_epoch}"
        if not np.isfinite(loss):
            raise ValueError(f"In {where}, the loss is {loss}: training can't continue")
        if self.per_print_times and args.cur_step_num % self.per_print_times == 0:
            print(f"{where}, loss is {loss}", flush=True)  # noqa: T201  the purpose of the callback

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """Print the metrics, if there are any."""
        args = run_context.original_args()
        if args.eval_results:
            line = f"Eval result: epoch {args.cur_epoch_num}, metrics: {args.eval_results}"
            print(line, flush=True)  # noqa: T201  the purpose of the callback

    def on_eval_step_end(self, run_context: RunContext) -> None:
        """Do nothing."""


class TimeMonitor(Callback):
    """Prints the time of each epoch and its mean time per step; `data_size`: steps per epoch, if it isn't known."""

    def __init__(self, data_size: int | None = None) -> None:
        self.data_size = data_size
        self._start_time = 0.0

    def epoch_begin(self, run_context: RunContext) -> None:
        """Record the start time."""
        self._start_time = time.perf_counter()

    def epoch_end(self, run_context: RunContext) -> None:
        """Print the times."""
        elapsed = 1000 * (time.perf_counter() - self._start_time)
        steps = self.data_size or run_context.original_args().step_in_epoch or 1
        mode = run_context.original_args().mode.capitalize()
        line = f"{mode} epoch time: {elapsed:5.3f} ms, per step time: {elapsed / steps:5.3f} ms"
        print(line, flush=True)  # noqa: T201  the purpose of the callback


class CheckpointConfig:
    """Configures when a `ModelCheckpoint` saves, and how many files it keeps.

    Args:
        save_checkpoint_steps: the number of steps between checkpoints.
        keep_checkpoint_max: the number of files to keep; the oldest are removed. 0: all.
        integrated_save: accepted without effect, since there is one device.
        async_save: accepted without effect; a file is complete when the step ends.
        append_info: names and values to save with the network.
    """

    def __init__(
        self,
        save_checkpoint_steps: int = 1,
        keep_checkpoint_max: int = 5,
        integrated_save: bool = True,
        async_save: bool = False,
        append_info: Iterable[dict[str, Any]] | None = None,
    ) -> None:
        of = "CheckpointConfig"
        checks.of_type(save_checkpoint_steps, "save_checkpoint_steps", int, of=of)
        checks.in_range(save_checkpoint_steps, "save_checkpoint_steps", "[1, inf)", of=of)
        checks.of_type(keep_checkpoint_max, "keep_checkpoint_max", int, of=of)
        checks.in_range(keep_checkpoint_max, "keep_checkpoint_max", "[0, inf)", of=of)
        self.save_checkpoint_steps = save_checkpoint_steps
        self.keep_checkpoint_max = keep_checkpoint_max
        self.append_dict = {name: value for entry in append_info or () for name, value in entry.items()}


class ModelCheckpoint(Callback):
    """Saves the network as `directory/prefix-epoch_step.ckpt`, also after the last step.

    Args:
        prefix: the prefix of the file names; not a path.
        directory: the folder of the files; it is created if necessary. None: the current one.
        config: a `CheckpointConfig`.

    Raises:
        ValueError: `prefix` is empty or a path.
    """

    def __init__(
        self,
        prefix: str = "CKP",
        directory: str | os.PathLike[str] | None = None,
        config: CheckpointConfig | None = None,
    ) -> None:
        checks.of_type(prefix, "prefix", str, of="ModelCheckpoint")
        if not prefix or Path(prefix).name != prefix or "\0" in prefix:
            raise ValueError(f"For 'ModelCheckpoint', 'prefix' must be a name, not a path, but got {prefix!r}")
        self.prefix = prefix
        self.directory = Path(directory or ".")
        self.config = config or CheckpointConfig()
        self.latest_ckpt_file_name = ""
        self._saved: list[Path] = []
        self._last_step = 0

    def step_end(self, run_context: RunContext) -> None:
        """Save, if the step is due."""
        args = run_context.original_args()
        if args.cur_step_num % self.config.save_checkpoint_steps == 0:
            self._save(args)

    def end(self, run_context: RunContext) -> None:
        """Save the state after the last step, unless it is saved already."""
        args = run_context.original_args()
        if args.cur_step_num and args.cur_step_num != self._last_step:
            self._save(args)

    def on_eval_step_end(self, run_context: RunContext) -> None:
        """Do nothing."""

    def on_eval_end(self, run_context: RunContext) -> None:
        """Do nothing."""

    def _save(self, args: SimpleNamespace) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / f"{self.prefix}-{args.cur_epoch_num}_{args.step_in_epoch}.ckpt"
        save_checkpoint(args.network, path, append_dict=self.config.append_dict or None)
        self._last_step, self.latest_ckpt_file_name = args.cur_step_num, str(path)
        self._saved = [*(other for other in self._saved if other != path), path]
        limit = self.config.keep_checkpoint_max
        while limit and len(self._saved) > limit:
            self._saved.pop(0).unlink(missing_ok=True)


def loss_of(outputs: Any) -> float:
    """Return the loss of a step: its first output, or the mean of its elements."""
    first = outputs[0] if isinstance(outputs, (tuple, list)) else outputs
    return float(np.mean(first.asnumpy() if hasattr(first, "asnumpy") else first))
