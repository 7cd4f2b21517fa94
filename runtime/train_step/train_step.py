"""`compile_train_step`: a whole step of training as one ONNX model, whose state stays on the device."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from .. import tree
from ..amp.scalers import LossScaler
from ..common.parameter import Parameter
from ..common.tensor import wrapped
from ..compiled.session import chosen_provider
from ..errors import UsageError
from ..ir.program import Program
from ..nn.cell import Cell
from ..nn.graph_cell import GraphCell
from ..nn.optim.optimizer import Optimizer
from ..nn.optim.rates import ListedRates
from ..nn.wrap.training_step import TrainingStep
from ..programs.call import as_array
from ..storage.files import whole_file
from ..storage.safetensors_bytes import from_bytes, to_bytes
from .arguments import training_step
from .compiled_step import CompiledStep
from .training_program import LEARNING_RATE, NETWORK, OPTIMIZER, state_tensors

Array = np.ndarray[Any, Any]


def compile_train_step(
    network: Cell | Program,
    loss: Callable[..., Any] | None,
    optimizer: Optimizer | Callable[[list[Parameter]], Optimizer],
    *,
    loss_scale: float | str | LossScaler | None = None,
    clip_norm: float | None = None,
    accumulate: int = 1,
    frozen: Sequence[str] = (),
    provider: str | None = None,
) -> TrainStep:
    """Compile a step of training: forward, backward, loss scale, clipping and update as one ONNX model.

    Args:
        network: a Cell, or a program such as `converter.from_torch` gives.
        loss: a Cell or function of the network's output and the last tensor of the batch; None if the network's output
            is the loss.
        optimizer: an optimizer, or a function that makes one for a list of Parameters.
        loss_scale: a number, which stays; "dynamic", which falls and grows as torch's `GradScaler` lets it; a scaler of
            `runtime.amp`; None for none. With a scale, an update whose gradients aren't finite is left out.
        clip_norm: the largest norm of all gradients together, as torch's `clip_grad_norm_` has it; None for any.
        accumulate: how many calls make one update, with the mean of their gradients.
        frozen: patterns (`layer1.*`) of names of Parameters that aren't trained: no gradient is computed for them.
        provider: "cpu", "cuda", or None for the best that is here; `TrainStep.provider` says which.

    Returns:
        The step. It is compiled at the first batch.

    Raises:
        UsageError: a pattern matches no Parameter, no Parameter is left to train, or an argument is something else.
        TypeError, ValueError: `clip_norm`, `accumulate` or `loss_scale` is out of range.
    """
    step = training_step(network, loss, optimizer, loss_scale, clip_norm, accumulate, frozen)
    return TrainStep(step, chosen_provider(provider))


class TrainStep:
    """A compiled step of training; made by `compile_train_step`.

    Parameters and the state of the optimizer stay on the device from call to call; the network itself is left as it is
    until `write_back`. What the network or the optimizer are given between calls (by `set_data`, eagerly, by another
    step's `write_back`) takes the place of what the step has. What it doesn't train is fixed in what is compiled, until
    it is given new values: it is compiled once more, and takes them from the network from then on. A batch of other
    sizes than those before is compiled once more, with the sizes that differ left open; then any size will do, unless
    Python decides on a size. It is compiled anew, too, where something changed that Python decided on: the mode of a
    Cell, `requires_grad`, an attribute.

    Attributes:
        step: the step as a Cell.
        provider: where it runs: "cpu" or "cuda".
        overflowed: whether the last call left out an update because a gradient wasn't finite.
    """

    def __init__(self, step: TrainingStep, provider: str) -> None:
        self.step = step
        self.provider = provider
        self.overflowed = False
        self._state_tensors = state_tensors(step)
        self._rates = {
            n: np.array(h.parameter._array) for n, h in self._state_tensors.items() if h.role == LEARNING_RATE
        }
        self._loaded: dict[str, Array] = {}
        self._seen = self._outside()
        self._changing: set[str] = set()
        self._compiled: CompiledStep | None = None
        self._listed = [cell for _, cell in step.optimizer.cells_and_names() if isinstance(cell, ListedRates)]
        self._rates_left = 0
        self._lock = threading.RLock()

    def __reduce__(self) -> Any:  # a session can't be copied: a copy goes on from the same state, compiled once more
        with self._lock:
            return _restored, (self.step, self.provider, self.state(), self.overflowed)

    def __call__(self, *batch: Any) -> Array:
        """Make a step.

        Args:
            *batch: the tensors of a batch, or one tuple or list of them: arrays, Tensors or torch tensors.

        Returns:
            The loss, a 0-d array.

        Raises:
            UsageError: the tensors aren't those that the network takes, or ONNX Runtime fails.
            RuntimeError: a list of learning rates was used up.
        """
        if len(batch) == 1 and isinstance(batch[0], (tuple, list)):
            batch = tuple(batch[0])
        if not batch:
            raise UsageError("a step needs the tensors of a batch")
        for place, tensor in enumerate(batch):
            if not tree.is_tensor(tensor):
                raise UsageError(
                    "a batch is made of arrays, Tensors or torch tensors, by position; given "
                    f"{type(tensor).__name__} at position {place}"
                )
        arrays = [as_array(tensor) for tensor in batch]
        with self._lock:  # threads take turns
            return self._run(arrays)

    def _run(self, batch: Sequence[Array]) -> Array:
        self._take_over()
        if self._compiled is None or not self._compiled.takes(batch) or self._changing & self._compiled.fixed:
            self._compile(batch)
        assert self._compiled is not None
        self._require_a_rate()
        loss, overflow = self._compiled.run(batch, self._seen | self._loaded | self._rates)
        self.overflowed = bool(overflow)
        return loss

    def _compile(self, batch: Sequence[Array]) -> None:
        self._require_fitting(batch)
        state = self.state()
        self._compiled = CompiledStep(self.step, batch, state, self._compiled, self._changing, self.provider)
        others = self._state_tensors.keys() - {*self._compiled.resident.names, *self._rates}
        # what a file gave, and not what the network has
        self._loaded = {name: state[name] for name in others if not np.array_equal(state[name], self._seen[name])}

    def _require_fitting(self, batch: Sequence[Array]) -> None:
        """`UsageError` unless the network takes as many tensors as it would get of the batch."""
        network, loss = self.step.network, self.step.loss
        taken = batch if loss is None else batch[:-1]
        wrong = ""
        if isinstance(network, GraphCell) and len(taken) != network.inputs_taken:
            wrong = f"needed {network.inputs_taken + (loss is not None)}"
        try:
            inspect.signature(network.construct).bind(*taken)
        except TypeError as error:
            wrong = str(error)
        if wrong:
            last = "" if loss is None else ", the last of which goes to the loss"
            raise UsageError(f"{network.cls_name} can't take this batch: {wrong}; given {len(batch)} tensors{last}")

    def _require_a_rate(self) -> None:
        """`RuntimeError` if a list of learning rates was used up: a device may read anything beyond its end.

        Not every call makes a step, so that the device is asked only once as many calls were made as rates were left.
        """
        if self._listed and self._rates_left == 0:
            (name,) = (
                n for n, kept in self._state_tensors.items() if kept.parameter is self.step.optimizer.global_step
            )
            made = int(self.state()[name][0])
            for rates in self._listed:
                rates.require(made)
            self._rates_left = min(rates.learning_rate.size for rates in self._listed) - made
        self._rates_left -= 1

    def _take_over(self) -> None:
        """Go on from what the network and the optimizer were given since the last call."""
        now = self._outside()
        given = {name: array for name, array in now.items() if array is not self._seen[name]}
        self._seen = now
        if not given:
            return
        for name in given:
            self._loaded.pop(name, None)
        self._rates |= {name: np.array(given[name]) for name in given.keys() & self._rates.keys()}
        self._rates_left = 0
        if self._compiled is not None:
            resident = self._compiled.resident
            self._changing |= given.keys() - {*resident.names, *self._rates}
            resident.load({name: array for name, array in given.items() if name in resident.names})

    def _outside(self) -> dict[str, Array]:
        """What the network and the optimizer have, by name: the arrays themselves."""
        return {name: kept.parameter._array for name, kept in self._state_tensors.items()}

    @property
    def program(self) -> Program:
        """The step as a program of the IR, with what is kept as it is now; `UsageError` before the first batch."""
        if self._compiled is None:
            raise UsageError("the step is compiled at its first batch: call it first")
        return self._compiled.traced.holding(self.state()).program

    @property
    def learning_rate(self) -> Any:
        """The learning rate; a dict by name if there are several. May be set, to a number or such a dict.

        Raises:
            UsageError: it is set, and the optimizer computes it, there is none of that name, or it isn't at least 0.
        """
        values = {name: float(rate) for name, rate in self._rates.items()}
        return next(iter(values.values())) if len(values) == 1 else values

    @learning_rate.setter
    def learning_rate(self, value: float | Mapping[str, float]) -> None:
        if not self._rates:
            raise UsageError("the optimizer computes its learning rate from the step: it can't be set")
        given = value if isinstance(value, Mapping) else dict.fromkeys(self._rates, value)
        for name, rate in given.items():
            if name not in self._rates:
                raise UsageError(f"there is no learning rate {name!r}; there are {', '.join(self._rates)}")
            if np.ndim(rate) or not isinstance(rate, (int, float, np.number, np.ndarray)) or not 0 <= rate < np.inf:
                raise UsageError(f"a learning rate is a finite number of at least 0, given {rate!r}")
        self._rates |= {name: np.asarray(rate, self._rates[name].dtype) for name, rate in given.items()}

    def state(self) -> dict[str, Array]:
        """A copy of all that is kept from step to step, by name."""
        outside = {name: np.array(array) for name, array in self._outside().items()}
        resident = self._compiled.resident.state() if self._compiled else {}
        return outside | self._loaded | self._rates | resident

    def parameters(self) -> dict[str, Array]:
        """A copy of the network's Parameters, by their paths in it: trained ones, frozen ones, moving statistics."""
        return self._of(NETWORK)

    def optimizer_state(self) -> dict[str, Array]:
        """A copy of the optimizer's state, by name."""
        return self._of(OPTIMIZER)

    def _of(self, role: str) -> dict[str, Array]:
        return {name: array for name, array in self.state().items() if self._state_tensors[name].role == role}

    def write_back(self) -> None:
        """Give the network and the optimizer what they have been trained to; a program stays as it is."""
        resident = self._compiled.resident.names if self._compiled else ()
        state = self.state()
        for name in {*self._loaded, *self._rates, *resident}:
            self._state_tensors[name].parameter.set_data(wrapped(state[name]))
            self._seen[name] = self._state_tensors[name].parameter._array

    def save(self, path: str | PathLike[str]) -> None:
        """Write all that is kept to a file in the safetensors format, whole or not at all.

        Raises:
            UsageError: the file can't be written.
        """
        try:
            with whole_file(Path(path)) as file:
                file.write(to_bytes(self.state()))
        except OSError as error:
            raise UsageError(f"can't write {path}: {error.strerror or error}") from error

    def load(self, path: str | PathLike[str]) -> None:
        """Go on from a file that `save` wrote.

        Raises:
            UsageError: the file can't be read, or it is of another network or optimizer.
        """
        try:
            arrays, _ = from_bytes(Path(path).read_bytes())
        except (OSError, ValueError) as error:
            raise UsageError(f"can't read {path}: {getattr(error, 'strerror', None) or error}") from error
        state = self.state()
        for name in sorted(state.keys() ^ arrays.keys()):
            raise UsageError(f"{path} isn't of this step: {name!r} is {'missing' if name in state else 'unknown'}")
        for name, array in arrays.items():
            if (array.dtype, array.shape) != (state[name].dtype, state[name].shape):
                raise UsageError(
                    f"{path} isn't of this step: {name!r} is {array.dtype.name}{list(array.shape)}, needed "
                    f"{state[name].dtype.name}{list(state[name].shape)}"
                )
        self._go_on_from(arrays)

    def _go_on_from(self, arrays: dict[str, Array]) -> None:
        self._rates = {name: arrays[name] for name in self._rates}
        self._loaded, self._seen, self._rates_left = arrays, self._outside(), 0
        self._compiled = None  # what it doesn't change is fixed in it


def _restored(step: TrainingStep, provider: str, state: dict[str, Array], overflowed: bool) -> TrainStep:
    """A step as it was copied."""
    made = TrainStep(step, provider)
    made._go_on_from(state)
    made.overflowed = overflowed
    return made
