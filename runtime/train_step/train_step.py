"""`compile_train_step`: a complete training step as one ONNX model, whose state stays on the device."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from .. import tree
from ..common.parameter import Parameter
from ..common.tensor import from_array
from ..compiled.session import choose_provider
from ..errors import UsageError
from ..ir.program import Program
from ..nn.cell import Cell
from ..nn.graph_cell import GraphCell
from ..nn.optim.optimizer import Optimizer
from ..nn.optim.rates import ListedRates
from ..nn.wrap.training_step import TrainingStep
from ..programs.call import as_array
from ..storage.files import atomic_file
from ..storage.safetensors_bytes import from_bytes, to_bytes
from .arguments import StepKeywords, training_step
from .compiled_step import CompiledStep
from .training_program import LEARNING_RATE, NETWORK, OPTIMIZER, state_tensors

Array = np.ndarray[Any, Any]


def compile_train_step(
    network: Cell | Program,
    loss: Callable[..., Any] | None,
    optimizer: Optimizer | Callable[[list[Parameter]], Optimizer],
    *,
    provider: str | None = None,
    **options: Unpack[StepKeywords],
) -> TrainStep:
    """Compile a training step: forward, backward, loss scale, clipping and update as one ONNX model.

    Args:
        network: a Cell, or a program such as `converter.from_torch` returns.
        loss: a Cell or function of the network's output and the last tensor of the batch; None if the network's output
            is the loss.
        optimizer: an optimizer, or a function that creates one for a list of Parameters.
        provider: "cpu", "cuda", or None for the best one available; `TrainStep.provider` is the choice.
        **options: any of
            `loss_scale`: a constant number; "dynamic", which falls and grows like the scale of torch's `GradScaler`; a
            scaler of `runtime.amp`; None, the default, for no scale. With a scale, updates with non-finite gradients
            are skipped.
            `clip_norm`: the largest norm of all gradients together, as in torch's `clip_grad_norm_`; None, the
            default, for no clipping.
            `accumulate`: the number of calls for one update, with the mean of their gradients; 1 by default.
            `frozen`: patterns (`layer1.*`) for names of Parameters that aren't trained; no gradients are computed for
            them.

    Returns:
        The step. The first batch compiles it.

    Raises:
        UsageError: a pattern matches no Parameter, no Parameter is left to train, or an argument has a wrong type.
        TypeError, ValueError: `clip_norm`, `accumulate` or `loss_scale` is out of range.
    """
    return TrainStep(training_step(network, loss, optimizer, **options), choose_provider(provider))


class TrainStep:
    """A compiled training step, as `compile_train_step` returns it.

    Parameters and the state of the optimizer stay on the device between calls; the network itself doesn't change until
    `write_back`. Values assigned to the network or the optimizer between calls (by `set_data`, by eager code, by
    `write_back` of another step) replace the values of the step. Untrained state is a constant of the compiled program;
    if it gets a new value, the step is compiled again and reads it from the network from then on. If a batch has other
    sizes than the previous ones, the step is compiled again with symbols for the sizes that differ, and then accepts
    any size, unless Python code branches on a size. It is also compiled again if something changes that the traced code
    depends on: the mode of a Cell, `requires_grad`, an attribute.

    On a GPU, a step whose sizes are known and that has no loop, branch or message runs as one CUDA graph.

    Attributes:
        step: the step as a Cell.
        provider: name of the execution provider (`runtime.providers`).
        overflowed: whether the last call skipped its update because a gradient wasn't finite.
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
        self._last_assigned = self._assigned_values()
        self._variable: set[str] = set()
        self._compiled: CompiledStep | None = None
        self._rate_lists = [cell for _, cell in step.optimizer.cells_and_names() if isinstance(cell, ListedRates)]
        self._rates_left = 0
        self._lock = threading.RLock()

    def __reduce__(self) -> Any:  # sessions can't be copied: a copy has the same state and is compiled again
        with self._lock:
            return _restore, (self.step, self.provider, self.state(), self.overflowed)

    def __call__(self, *batch: Any) -> Array:
        """Run a step.

        Args:
            *batch: the tensors of a batch, or one tuple or list of them: arrays, Tensors or torch tensors.

        Returns:
            The loss, a 0-d array.

        Raises:
            UsageError: the tensors don't fit the network, or ONNX Runtime fails.
            RuntimeError: a list of learning rates is exhausted.
        """
        if len(batch) == 1 and isinstance(batch[0], (tuple, list)):
            batch = tuple(batch[0])
        if not batch:
            raise UsageError("a step needs the tensors of a batch")
        for index, tensor in enumerate(batch):
            if not tree.is_tensor(tensor):
                raise UsageError(
                    "a batch must consist of arrays, Tensors or torch tensors, by position; given "
                    f"{type(tensor).__name__} at position {index}"
                )
        arrays = [as_array(tensor) for tensor in batch]
        with self._lock:  # one thread at a time
            return self._run(arrays)

    def _run(self, batch: Sequence[Array]) -> Array:
        self._adopt_assigned_values()
        if self._compiled is None or not self._compiled.accepts(batch) or self._variable & self._compiled.fixed:
            self._compile(batch)
        assert self._compiled is not None
        self._require_rate()
        loss, self.overflowed = self._compiled.run(batch, self._last_assigned | self._loaded | self._rates)
        return loss

    def _compile(self, batch: Sequence[Array]) -> None:
        self._check_batch(batch)
        state = self.state()
        self._compiled = CompiledStep(self.step, batch, state, self._compiled, self._variable, self.provider)
        others = self._state_tensors.keys() - {*self._compiled.resident.names, *self._rates}
        # values loaded from a file that differ from the network's
        self._loaded = {
            name: state[name] for name in others if not np.array_equal(state[name], self._last_assigned[name])
        }

    def _check_batch(self, batch: Sequence[Array]) -> None:
        """Raise `UsageError` unless the network takes as many tensors as the batch has for it."""
        network, loss = self.step.network, self.step.loss
        inputs = batch if loss is None else batch[:-1]
        wrong = ""
        if isinstance(network, GraphCell) and len(inputs) != network.input_count:
            wrong = f"needed {network.input_count + (loss is not None)}"
        try:
            inspect.signature(network.construct).bind(*inputs)
        except TypeError as error:
            wrong = str(error)
        if wrong:
            last = "" if loss is None else ", the last of which goes to the loss"
            raise UsageError(f"{network.cls_name} can't take this batch: {wrong}; given {len(batch)} tensors{last}")

    def _require_rate(self) -> None:
        """Raise `RuntimeError` if a list of learning rates is exhausted; a device would read beyond its end.

        Not every call updates, so the step count is read from the device only after as many calls as rates were left.
        """
        if self._rate_lists and self._rates_left == 0:
            (name,) = (
                n for n, kept in self._state_tensors.items() if kept.parameter is self.step.optimizer.global_step
            )
            steps = int(self.state()[name][0])
            for rates in self._rate_lists:
                rates.require(steps)
            self._rates_left = min(rates.learning_rate.size for rates in self._rate_lists) - steps
        self._rates_left -= 1

    def _adopt_assigned_values(self) -> None:
        """Adopt the values that were assigned to the network and the optimizer since the last call."""
        now = self._assigned_values()
        new = {name: array for name, array in now.items() if array is not self._last_assigned[name]}
        self._last_assigned = now
        if not new:
            return
        for name in new:
            self._loaded.pop(name, None)
        self._rates |= {name: np.array(new[name]) for name in new.keys() & self._rates.keys()}
        self._rates_left = 0
        if self._compiled is not None:
            resident = self._compiled.resident
            self._variable |= new.keys() - {*resident.names, *self._rates}
            resident.load({name: array for name, array in new.items() if name in resident.names})

    def _assigned_values(self) -> dict[str, Array]:
        """Return the current arrays of the network and the optimizer, by name, without copies."""
        return {name: kept.parameter._array for name, kept in self._state_tensors.items()}

    @property
    def program(self) -> Program:
        """The step as a program of the IR, with the current state; `UsageError` before the first batch."""
        if self._compiled is None:
            raise UsageError("the step is compiled at its first batch: call it first")
        return self._compiled.traced.with_state(self.state()).program

    @property
    def learning_rate(self) -> Any:
        """The learning rate, or a dict by name if there are several. It can be set to a number or such a dict.

        Raises:
            UsageError: on assignment, if the optimizer computes the rate, a name is unknown, or a rate is negative.
        """
        values = {name: float(rate) for name, rate in self._rates.items()}
        return next(iter(values.values())) if len(values) == 1 else values

    @learning_rate.setter
    def learning_rate(self, value: float | Mapping[str, float]) -> None:
        if not self._rates:
            raise UsageError("the optimizer computes its learning rate from the step: it can't be set")
        rates = value if isinstance(value, Mapping) else dict.fromkeys(self._rates, value)
        for name, rate in rates.items():
            if name not in self._rates:
                raise UsageError(f"there is no learning rate {name!r}; there are {', '.join(self._rates)}")
            if np.ndim(rate) or not isinstance(rate, (int, float, np.number, np.ndarray)) or not 0 <= rate < np.inf:
                raise UsageError(f"a learning rate must be a finite number of at least 0, given {rate!r}")
        self._rates |= {name: np.asarray(rate, self._rates[name].dtype) for name, rate in rates.items()}

    def state(self) -> dict[str, Array]:
        """Return a copy of the whole state, by name."""
        assigned_values = {name: np.array(array) for name, array in self._assigned_values().items()}
        resident = self._compiled.resident.state() if self._compiled else {}
        return assigned_values | self._loaded | self._rates | resident

    def parameters(self) -> dict[str, Array]:
        """Return a copy of the network's Parameters by their paths: trained and frozen ones, moving statistics."""
        return self._of(NETWORK)

    def optimizer_state(self) -> dict[str, Array]:
        """Return a copy of the optimizer's state, by name."""
        return self._of(OPTIMIZER)

    def _of(self, role: str) -> dict[str, Array]:
        return {name: array for name, array in self.state().items() if self._state_tensors[name].role == role}

    def write_back(self) -> None:
        """Write the trained state to the network and the optimizer; a program stays unchanged."""
        resident = self._compiled.resident.names if self._compiled else ()
        state = self.state()
        for name in {*self._loaded, *self._rates, *resident}:
            self._state_tensors[name].parameter.set_data(from_array(state[name]))
            self._last_assigned[name] = self._state_tensors[name].parameter._array

    def save(self, path: str | PathLike[str]) -> None:
        """Save the state to a file in the safetensors format, atomically.

        Raises:
            UsageError: the file can't be written.
        """
        try:
            with atomic_file(Path(path)) as file:
                file.write(to_bytes(self.state()))
        except OSError as error:
            raise UsageError(f"can't write {path}: {error.strerror or error}") from error

    def load(self, path: str | PathLike[str]) -> None:
        """Load the state from a file that `save` wrote.

        Raises:
            UsageError: the file can't be read, or belongs to another network or optimizer.
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
        self._set_state(arrays)

    def _set_state(self, arrays: dict[str, Array]) -> None:
        self._rates = {name: arrays[name] for name in self._rates}
        self._loaded, self._last_assigned, self._rates_left = arrays, self._assigned_values(), 0
        self._compiled = None  # it has untrained state as constants


def _restore(step: TrainingStep, provider: str, state: dict[str, Array], overflowed: bool) -> TrainStep:
    """Restore a copied step."""
    result = TrainStep(step, provider)
    result._set_state(state)
    result.overflowed = overflowed
    return result
