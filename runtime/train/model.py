"""`Model`: a network, its loss and its optimizer, trained, judged and run."""

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
    """Trains a network step by step on a data set, which is any iterable of batches that can be iterated again.

    Args:
        network: the network; with its loss, if there is no `loss_fn`.
        loss_fn: takes the network's output and the labels, the last of a batch.
        optimizer: of `nn`; needed to train.
        metrics: names, or Metrics by name; needed by `eval`.
        eval_network: takes a batch and gives loss, outputs and labels; None: the network and `loss_fn`.
        amp_level: "O0", "O1", "O2" or "O3", as `amp.build_train_network` takes it.
        loss_scale_manager: of `amp`.

    Raises:
        TypeError: an argument is of another type.
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
                given = {} if loss_scale_manager is None else {"loss_scale_manager": loss_scale_manager}
                self.train_network = build_train_network(network, optimizer, loss_fn, level=amp_level, **given)

    def train(
        self,
        epoch: int,
        train_dataset: Iterable[Any],
        callbacks: Callback | list[Callback] | None = None,
        dataset_sink_mode: bool = False,
        sink_size: int = -1,
        initial_epoch: int = 0,
    ) -> None:
        """Train.

        Args:
            epoch: how many epochs.
            train_dataset: of batches: tuples of Tensors or arrays.
            callbacks: one or several, called in order.
            dataset_sink_mode: accepted; there is no device to send the data to at once.
            sink_size: accepted; see `dataset_sink_mode`.
            initial_epoch: the number of the epoch to begin with, for one that goes on.

        Raises:
            ValueError: there is no optimizer, or the data set is empty.
        """
        self._train(epoch, train_dataset, _several(callbacks), initial_epoch)

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
        """Train, and judge the network after epochs: `eval_results`, the metrics, are then among what callbacks see.

        Args:
            epoch: how many epochs.
            train_dataset: as for `train`.
            valid_dataset: of batches to judge by; None: as `train`.
            valid_frequency: after each of how many epochs, or the numbers of the epochs (from 1).
            callbacks: one or several, called in order.
            dataset_sink_mode: accepted; see `train`.
            valid_dataset_sink_mode: accepted; see `train`.
            sink_size: accepted; see `train`.
            initial_epoch: the number of the epoch to begin with, for one that goes on.

        Raises:
            ValueError: as for `train` and `eval`, or `valid_frequency` isn't positive.
        """
        frequency = [valid_frequency] if isinstance(valid_frequency, int) else list(valid_frequency)
        if not frequency or not all(isinstance(n, int) and n > 0 for n in frequency):
            raise ValueError(
                "For 'Model.fit', 'valid_frequency' must be a positive int or a list of them, but got "
                f"{valid_frequency!r}"
            )
        called = _several(callbacks)

        def judged(number: int) -> dict[str, Any]:
            due = number % frequency[0] == 0 if isinstance(valid_frequency, int) else number in frequency
            return self.eval(valid_dataset, called) if due and valid_dataset is not None else {}

        if valid_dataset is not None:
            self._require_judges()
        self._train(epoch, train_dataset, called, initial_epoch, judged)

    def _train(
        self,
        epoch: int,
        train_dataset: Iterable[Any],
        called: list[Callback],
        initial_epoch: int,
        judged: Callable[[int], dict[str, Any]] = lambda number: {},
    ) -> None:
        """`train`; `judged` gives the metrics after an epoch."""
        if self.train_network is None:
            raise ValueError("For 'Model.train', an optimizer is needed: Model(network, loss_fn, optimizer)")
        args = SimpleNamespace(
            cur_epoch_num=initial_epoch, cur_step_num=0, step_in_epoch=0, epoch_num=epoch,
            batch_num=_size(train_dataset), net_outputs=None, train_network=self.train_network, network=self.network,
            optimizer=self.optimizer, mode="train", eval_results={},
        )  # fmt: skip
        context = RunContext(args)
        self.train_network.set_train()
        for callback in called:
            callback.on_train_begin(context)
        for number in range(initial_epoch + 1, epoch + 1):
            args.cur_epoch_num, args.step_in_epoch = number, 0
            for callback in called:
                callback.on_train_epoch_begin(context)
            for batch in _batches(train_dataset):
                args.cur_step_num, args.step_in_epoch = args.cur_step_num + 1, args.step_in_epoch + 1
                for callback in called:
                    callback.on_train_step_begin(context)
                args.net_outputs = self.train_network(*batch)
                for callback in called:
                    callback.on_train_step_end(context)
                if context.get_stop_requested():
                    break
            if not args.step_in_epoch:
                raise ValueError(
                    "For 'Model.train', the data set gives no batch; an iterator is used up after one epoch"
                )
            args.eval_results = judged(number)
            self.train_network.set_train()
            for callback in called:
                callback.on_train_epoch_end(context)
            if context.get_stop_requested():
                break
        for callback in called:
            callback.on_train_end(context)

    def eval(
        self, valid_dataset: Iterable[Any], callbacks: Any = None, dataset_sink_mode: bool = False
    ) -> dict[str, Any]:
        """The metrics, by name, over a data set, in eval mode.

        Raises:
            ValueError: there are no metrics, or neither a loss nor an `eval_network`.
        """
        network, metrics = self._require_judges()
        called = _several(callbacks)
        args = SimpleNamespace(
            cur_epoch_num=1, cur_step_num=0, step_in_epoch=0, epoch_num=1, batch_num=_size(valid_dataset),
            net_outputs=None, eval_network=network, network=self.network, mode="eval", metrics={},
        )  # fmt: skip
        context = RunContext(args)
        network.set_train(False)
        for metric in metrics.values():
            metric.clear()
        for callback in called:
            callback.on_eval_begin(context)
        for callback in called:
            callback.on_eval_epoch_begin(context)
        for batch in _batches(valid_dataset):
            args.cur_step_num = args.step_in_epoch = args.cur_step_num + 1
            for callback in called:
                callback.on_eval_step_begin(context)
            args.net_outputs = network(*batch)
            for callback in called:
                callback.on_eval_step_end(context)
            loss, *judged = args.net_outputs
            for metric in metrics.values():
                metric.update(*([loss] if isinstance(metric, Loss) else judged))
            if context.get_stop_requested():
                break
        for callback in called:
            callback.on_eval_epoch_end(context)
        args.metrics = {name: metric.eval() for name, metric in metrics.items()}
        for callback in called:
            callback.on_eval_end(context)
        return args.metrics  # type: ignore[no-any-return]

    def _require_judges(self) -> tuple[Cell, dict[str, Any]]:
        """The network that gives what metrics judge, and these; `ValueError` if there are none."""
        if not self.metrics:
            raise ValueError("For 'Model.eval', metrics are needed: Model(network, loss_fn, metrics={'accuracy'})")
        if self.eval_network is None:
            raise ValueError("For 'Model.eval', a loss_fn or an eval_network is needed")
        return self.eval_network, self.metrics

    def predict(self, *predict_data: Any) -> Any:
        """What the network gives, in eval mode."""
        self.network.set_train(False)
        return self.network(*(_tensor(x) for x in predict_data))


def _several(callbacks: Callback | list[Callback] | None) -> list[Callback]:
    found = [callbacks] if isinstance(callbacks, Callback) else list(callbacks or [])
    for callback in found:
        if not isinstance(callback, Callback):
            raise TypeError(f"For 'Model.train', 'callbacks' must be Callbacks, but got {type(callback).__name__}")
    return found


def _size(dataset: Any) -> int:
    """How many batches there are, 0 if that isn't known."""
    counted = getattr(dataset, "get_dataset_size", None) or getattr(dataset, "__len__", None)
    return int(counted()) if counted is not None else 0


def _batches(dataset: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    for batch in dataset:
        parts = batch if isinstance(batch, (tuple, list)) else (batch,)
        yield tuple(_tensor(x) for x in parts)


def _tensor(x: Any) -> Any:
    return Tensor(x) if isinstance(x, np.ndarray) else x
