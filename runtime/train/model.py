"""`Model`: a network, its loss and its optimizer, trained, judged and run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
        if self.train_network is None:
            raise ValueError("For 'Model.train', an optimizer is needed: Model(network, loss_fn, optimizer)")
        called = _several(callbacks)
        args = SimpleNamespace(
            cur_epoch_num=initial_epoch, cur_step_num=0, step_in_epoch=0, epoch_num=epoch,
            batch_num=_size(train_dataset), net_outputs=None, train_network=self.train_network, network=self.network,
            optimizer=self.optimizer,
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
        if not self.metrics:
            raise ValueError("For 'Model.eval', metrics are needed: Model(network, loss_fn, metrics={'accuracy'})")
        if self.eval_network is None:
            raise ValueError("For 'Model.eval', a loss_fn or an eval_network is needed")
        self.eval_network.set_train(False)
        for metric in self.metrics.values():
            metric.clear()
        for batch in _batches(valid_dataset):
            loss, *judged = self.eval_network(*batch)
            for metric in self.metrics.values():
                metric.update(*([loss] if isinstance(metric, Loss) else judged))
        return {name: metric.eval() for name, metric in self.metrics.items()}

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
