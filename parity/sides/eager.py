"""The runtime's own Cells, run eagerly, as a framework for `cell_side`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...runtime.common import tape
from ...runtime.common.parameter import Parameter
from ...runtime.common.tensor import Tensor, from_array, identity_entry
from ...runtime.eager.backward import record
from ...runtime.ir.types import FLOAT64, as_dtype, is_floating
from ...runtime.nn.cell import Cell
from ...runtime.nn.optim.optimizer import Optimizer, observe_updates
from ...runtime.ops import random
from ...runtime.precision import force_dtype
from ..dtypes import cast_floating
from . import rounded_numbers
from .frameworks import Pull
from .names import CELL
from .records import Array


class Eager:
    """Cells of `cellbridge.runtime.nn`."""

    name = CELL
    checks: tuple[str, ...] = ("meaning", "rounding")
    replays = True
    sees_updates = True

    def is_tensor(self, value: Any) -> bool:
        """Whether a value is a tensor."""
        return isinstance(value, Tensor)

    def tensor(self, array: Array) -> Tensor:
        """A tensor with these elements."""
        return from_array(np.array(array))

    def array(self, tensor: Tensor) -> Array:
        """The elements of a tensor."""
        return tensor.asnumpy()

    def is_tracked(self, tensor: Tensor) -> bool:
        """Whether the tensor is on the tape."""
        recording = tape.current()
        return recording is not None and tensor.number_on(recording) is not None

    def is_recording(self) -> bool:
        """Whether there is a tape."""
        return tape.current() is not None

    def cross(self, tensor: Tensor, passed: Array, pull: Pull) -> Tensor:
        """Return a tensor with the elements `passed`, whose gradient is passed through `pull` to `tensor`."""

        def pull_back(output_cotangents: list[Any]) -> Sequence[Any]:
            gradient = pull(output_cotangents[0].asnumpy())
            return (None if gradient is None else from_array(gradient),)

        if not self.is_tracked(tensor):
            return from_array(passed)
        (result,) = identity_entry((tensor,), pull_back)
        return from_array(passed, result._tape, result._number)

    def run(
        self,
        function: Callable[..., Sequence[Any]],
        inputs: Sequence[Any],
        parameters: Sequence[Any],
        seeds: Callable[[Sequence[Any]], Sequence[Array | None]] | None,
    ) -> tuple[list[Any], list[Array | None], list[Array | None]]:
        """Return the outputs of `function(*inputs)`, and the gradients of the inputs and the parameters."""
        if seeds is None:
            return list(function(*inputs)), [], []
        recording = tape.Tape()
        floating = [i for i, x in enumerate(inputs) if is_floating(x.dtype)]
        forward = record(function, tuple(inputs), {}, recording, floating, parameters)
        cotangents: dict[int, Any] = {}
        for output, seed in zip(forward.outputs, seeds(forward.outputs), strict=True):
            number = output.number_on(recording)
            if seed is not None and number is not None:
                gradient = from_array(seed.astype(output.dtype))
                cotangents[number] = cotangents[number] + gradient if number in cotangents else gradient
        with tape.record_on(None):
            recording.backward(forward.start, cotangents)
        of_inputs = [cotangents.get(forward.numbers.get(i, 0)) for i in range(len(inputs))]
        numbers = {key: number for key, (number, *_) in forward.parameters.items()}
        of_parameters = [cotangents.get(numbers.get(id(p), 0)) for p in parameters]
        gradients = [[None if g is None else g.asnumpy() for g in part] for part in (of_inputs, of_parameters)]
        return list(forward.outputs), gradients[0], gradients[1]

    @contextlib.contextmanager
    def prepare(
        self, cell: Cell, values: Mapping[int, Array], dtype: str, train: bool | None, perturbed: bool = False
    ) -> Iterator[None]:
        """Within the context, Parameters and tensors that Cells hold are in `dtype`; afterwards they are restored."""
        target = as_dtype(dtype)
        cells = [inner for _, inner in cell.cells_and_names()]
        states = [(inner, dict(inner.__dict__), dict(inner._params), dict(inner._cells)) for inner in cells]
        parameters = [(p, dict(p.__dict__)) for p in cell.get_parameters()]
        try:
            for parameter, _ in parameters:
                parameter._data = cast_floating(np.array(values[id(parameter)]), target)
            # mixed modes are kept, as for modules
            mixed = train is not False and len({inner.training for inner in cells}) > 1
            for inner in cells:
                inner.training = inner.training if mixed else bool(train)
                inner.requires_grad, inner._forward_run = False, None
                for name, value in list(inner.__dict__.items()):
                    if (
                        name not in ("_params", "_cells") and not perturbed
                    ):  # else operators must get the rounded numbers
                        inner.__dict__[name] = _convert(value, target)
            cell.phase = "train" if train else "predict"
            cast_external = rounded_numbers.perturb if perturbed else None
            with force_dtype(target, cast_external) if target == FLOAT64 else contextlib.nullcontext():
                yield
        finally:
            for inner, state, own_parameters, children in states:
                for registered, before in ((state["_params"], own_parameters), (state["_cells"], children)):
                    registered.clear()
                    registered.update(before)
                inner.__dict__.clear()
                inner.__dict__.update(state)
            for parameter, state in parameters:
                parameter.__dict__.clear()
                parameter.__dict__.update(state)

    def observe_draws(self, observer: Callable[[str, Array], Array]) -> contextlib.AbstractContextManager[None]:
        """Within the context, `observer(op, array)` is called for every random draw, and returns its replacement."""
        return random.observe_draws(observer)

    def observe_updates(
        self, observer: Callable[[Mapping[int, Array]], None]
    ) -> contextlib.AbstractContextManager[None]:
        """Within the context, `observer(gradients)` is called before every update."""

        def observe(optimizer: Optimizer, gradients: Sequence[Tensor]) -> None:
            pairs = zip(optimizer.parameters, gradients, strict=True)
            observer({id(p): np.array(g.asnumpy()) / optimizer.loss_scale for p, g in pairs})

        return observe_updates(observe)


def _convert(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return an attribute with its tensors in another floating-point dtype, or the same object if it has none."""
    if isinstance(value, Parameter):
        return value
    if isinstance(value, Tensor):
        return from_array(cast_floating(value._data, dtype))
    if type(value) in (list, tuple) and any(isinstance(item, Tensor) for item in value):
        return type(value)(_convert(item, dtype) for item in value)
    if type(value) is dict and any(isinstance(item, Tensor) for item in value.values()):
        return {name: _convert(item, dtype) for name, item in value.items()}
    return value
