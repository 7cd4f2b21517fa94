"""`Model`: trains, evaluates and runs a network with its loss and optimizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..amp.training import build_train_network
from ..common.tensor import Tensor
from ..nn.cell import Cell
from ..nn.wrap import TrainOneStepCell, WithEvalCell
from .callbacks import Callback, RunContext
from .metrics import Loss, get_metrics


class Model:
    """Trains a network on a data set: any iterable of batches that can be iterated repeatedly.

    Args:
        network: the network; it returns the loss if there is no `loss_fn`.
        loss_fn: takes the network's output and the labels, which are the last item of a batch.
        optimizer: an optimizer of `nn`; required for training.
        metrics: names, or Metrics by name; required for `eval`.
        eval_network: takes a batch and returns loss, outputs and labels; None: the network with `loss_fn`.
        amp_level: "O0", "O1", "O2" or "O3", as in `amp.build_train_network`.
        loss_scale_manager: a manager of `amp`.

    Raises:
        TypeError: an argument has a wrong type.
    """

    def __init__(
        self,
        network: Cell,
        loss_fn: Any = None,
        optimizer: Any = None,
        metrics: Any = None,
        eval_network: Cell | None = None,
        *,
        amp_level: str = "O0",
        loss_scale_manager: Any = None,
    ) -> None:
        if not isinstance(network, Cell):
            raise TypeError(f"For 'Model', 'network' must be a Cell, but got {type(network).__name__}")
        self.network, self.loss_fn, self.optimizer = network, loss_fn, optimizer
        self.metrics = get_metrics(metrics)
        self.eval_network = eval_network or (WithEvalCell(network, loss_fn) if loss_fn is not None else None)
        self.train_network: Cell | None = None
        if optimizer is not None:
            if amp_level == "O0" and loss_scale_manager is None and loss_fn is None:
                self.train_network = TrainOneStepCell(network, optimizer)
            else:
                options = {} if loss_scale_manager is None else {"loss_scale_manager": loss_scale_manager}
                self.train_network = build_train_network(network, optimizer, loss_fn, level=amp_level, **options)

    def train(
        self,
        epoch: int,
        train_dataset: Iterable[Any],
        callbacks: Callback | list[Callback] | None = None,
        dataset_sink_mode: bool = False,
        sink_size: int = -1,
        initial_epoch: int = 0,
    ) -> None:
        """Train the network.

        Args:
            epoch: the number of the last epoch.
            train_dataset: batches: tuples of Tensors or arrays.
            callbacks: one or several, called in order.
            dataset_sink_mode: accepted without effect, since data isn't queued on a device.
            sink_size: accepted without effect; see `dataset_sink_mode`.
            initial_epoch: the number of epochs already completed, to resume training.

        Raises:
            ValueError: there is no optimizer, or the data set is empty.
        """
        self._train(epoch, train_dataset, _as_list(callbacks), initial_epoch)

    def fit(
        self,
        epoch: int,
        train_dataset: Iterable[Any],
        valid_dataset: Iterable[Any] | None = None,
        valid_frequency: int | list[int] = 1,
        callbacks: Callback | list[Callback] | None = None,
        dataset_sink_mode: bool = False,
        valid_dataset_sink_mode: bool = False,
        sink_size: int = -1,
        initial_epoch: int = 0,
    ) -> None:
        """Train, and evaluate the network after epochs; callbacks get the metrics as `eval_results`.

        Args:
            epoch: see `train`.
            train_dataset: see `train`.
            valid_dataset: the batches for evaluation; None: only train.
            valid_frequency: the number of epochs between evaluations, or a list of the epochs to evaluate (from 1).
            callbacks: one or several, called in order.
            dataset_sink_mode: accepted without effect; see `train`.
            valid_dataset_sink_mode: accepted without effect; see `train`.
            sink_size: accepted without effect; see `train`.
            initial_epoch: see `train`.

        Raises:
            ValueError: as for `train` and `eval`, or `valid_frequency` isn't positive.
        """
        frequency = [valid_frequency] if isinstance(valid_frequency, int) else list(valid_frequency)
        if not frequency or not all(isinstance(n, int) and n > 0 for n in frequency):
            raise ValueError(
                "For 'Model.fit', 'valid_frequency' must be a positive int or a list of them, but got "
                f"{valid_frequency!r}"
            )
        callback_list = _as_list(callbacks)

        def evaluate(number: int) -> dict[str, Any]:
            due = number % frequency[0] == 0 if isinstance(valid_frequency, int) else number in frequency
            return self.eval(valid_dataset, callback_list) if due and valid_dataset is not None else {}

        if valid_dataset is not None:
            self._require_evaluation()
        self._train(epoch, train_dataset, callback_list, initial_epoch, evaluate)

    def _train(
        self,
        epoch: int,
        train_dataset: Iterable[Any],
        callback_list: list[Callback],
        initial_epoch: int,
        evaluate: Callable[[int], dict[str, Any]] = lambda number: {},
    ) -> None:
        """Train; `evaluate` returns the metrics after an epoch."""
        if self.train_network is None:
            raise ValueError("For 'Model.train', an optimizer is needed: Model(network, loss_fn, optimizer)")
        args = SimpleNamespace(
            cur_epoch_num=initial_epoch, cur_step_num=0, step_in_epoch=0, epoch_num=epoch,
            batch_num=_size(train_dataset), net_outputs=None, train_network=self.train_network, network=self.network,
            optimizer=self.optimizer, mode="train", eval_results={},
        )  # fmt: skip
        context = RunContext(args)
        self.train_network.set_train()
        for callback in callback_list:
            callback.on_train_begin(context)
        for number in range(initial_epoch + 1, epoch + 1):
            args.cur_epoch_num, args.step_in_epoch = number, 0
            for callback in callback_list:
                callback.on_train_epoch_begin(context)
            for batch in _batches(train_dataset):
                args.cur_step_num, args.step_in_epoch = args.cur_step_num + 1, args.step_in_epoch + 1
                for callback in callback_list:
                    callback.on_train_step_begin(context)
                args.net_outputs = self.train_network(*batch)
                for callback in callback_list:
                    callback.on_train_step_end(context)
                if context.get_stop_requested():
                    break
            if not args.step_in_epoch:
                raise ValueError(
                    "For 'Model.train', the data set gives no batch; an iterator is used up after one epoch"
                )
            args.eval_results = evaluate(number)
            self.train_network.set_train()
            for callback in callback_list:
                callback.on_train_epoch_end(context)
            if context.get_stop_requested():
                break
        for callback in callback_list:
            callback.on_train_end(context)

    def eval(
        self, valid_dataset: Iterable[Any], callbacks: Any = None, dataset_sink_mode: bool = False
    ) -> dict[str, Any]:
        """Compute the metrics, by name, over a data set, in eval mode.

        Raises:
            ValueError: there are no metrics, or neither a loss nor an `eval_network`.
        """
        network, metrics = self._require_evaluation()
        callback_list = _as_list(callbacks)
        args = SimpleNamespace(
            cur_epoch_num=1, cur_step_num=0, step_in_epoch=0, epoch_num=1, batch_num=_size(valid_dataset),
            net_outputs=None, eval_network=network, network=self.network, mode="eval", metrics={},
        )  # fmt: skip
        context = RunContext(args)
        network.set_train(False)
        for metric in metrics.values():
            metric.clear()
        for callback in callback_list:
            callback.on_eval_begin(context)
        for callback in callback_list:
            callback.on_eval_epoch_begin(context)
        for batch in _batches(valid_dataset):
            args.cur_step_num = args.step_in_epoch = args.cur_step_num + 1
            for callback in callback_list:
                callback.on_eval_step_begin(context)
            args.net_outputs = network(*batch)
            for callback in callback_list:
                callback.on_eval_step_end(context)
            loss, *outputs = args.net_outputs
            for metric in metrics.values():
                metric.update(*([loss] if isinstance(metric, Loss) else outputs))
            if context.get_stop_requested():
                break
        for callback in callback_list:
            callback.on_eval_epoch_end(context)
        args.metrics = {name: metric.eval() for name, metric in metrics.items()}
        for callback in callback_list:
            callback.on_eval_end(context)
        return args.metrics  # type: ignore[no-any-return]

    def _require_evaluation(self) -> tuple[Cell, dict[str, Any]]:
        """Return the evaluation network and the metrics; `ValueError` if there are none."""
        if not self.metrics:
            raise ValueError("For 'Model.eval', metrics are needed: Model(network, loss_fn, metrics={'accuracy'})")
        if self.eval_network is None:
            raise ValueError("For 'Model.eval', a loss_fn or an eval_network is needed")
        return self.eval_network, self.metrics

    def predict(self, *predict_data: Any) -> Any:
        """Run the network in eval mode."""
        self.network.set_train(False)
        return self.network(*(_tensor(x) for x in predict_data))


def _as_list(callbacks: Callback | list[Callback] | None) -> list[Callback]:
    result = [callbacks] if isinstance(callbacks, Callback) else list(callbacks or [])
    for callback in result:
        if not isinstance(callback, Callback):
            raise TypeError(f"For 'Model.train', 'callbacks' must be Callbacks, but got {type(callback).__name__}")
    return result


def _size(dataset: Any) -> int:
    """The number of batches; 0 if it isn't known."""
    count = getattr(dataset, "get_dataset_size", None) or getattr(dataset, "__len__", None)
    return int(count()) if count is not None else 0


def _batches(dataset: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    for batch in dataset:
        parts = batch if isinstance(batch, (tuple, list)) else (batch,)
        yield tuple(_tensor(x) for x in parts)


def _tensor(x: Any) -> Any:
    return Tensor(x) if isinstance(x, np.ndarray) else x
