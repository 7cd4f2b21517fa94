"""MindSpore's Cells, run in its dynamic mode, as a framework for `cell_side`; needs the `mindspore` package.

They are judged only in the working dtype, since many of MindSpore's kernels lack float64; and in train mode only
without random draws, which can't be replaced.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import mindspore  # pyright: ignore[reportMissingImports]
import numpy as np
from mindspore import Parameter, Tensor, nn, ops  # pyright: ignore[reportMissingImports]

from .frameworks import Pull
from .names import MINDSPORE
from .records import Array


class MindSpore:
    """Cells of `mindspore.nn`."""

    name = MINDSPORE
    checks: tuple[str, ...] = ("rounding",)
    replays = False
    sees_updates = False

    def __init__(self) -> None:
        self._recording = False

    def is_tensor(self, value: Any) -> bool:
        """Whether a value is a tensor."""
        return isinstance(value, Tensor)

    def tensor(self, array: Array) -> Any:
        """A tensor with these elements."""
        return Tensor(np.ascontiguousarray(array).reshape(array.shape))

    def array(self, tensor: Any) -> Array:
        """The elements of a tensor."""
        return np.array(tensor.asnumpy())

    def is_tracked(self, tensor: Any) -> bool:
        """Whether a gradient that may go through this tensor is being computed; MindSpore doesn't say exactly."""
        return self._recording and bool(tensor.is_floating_point())

    def is_recording(self) -> bool:
        """Whether a gradient is being computed."""
        return self._recording

    def cross(self, tensor: Any, passed: Array, pull: Pull) -> Any:
        """Return a tensor with the elements `passed`, whose gradient is passed through `pull` to `tensor`."""
        if not self.is_tracked(tensor):
            return self.tensor(passed)
        return _BoundaryCell(self, passed, pull)(tensor)

    def run(
        self,
        function: Callable[..., Sequence[Any]],
        inputs: Sequence[Any],
        parameters: Sequence[Any],
        seeds: Callable[[Sequence[Any]], Sequence[Array | None]] | None,
    ) -> tuple[list[Any], list[Array | None], list[Array | None]]:
        """Return the outputs of `function(*inputs)`, and the gradients of the inputs and the parameters."""
        outputs: list[Any] = []
        floating = tuple(i for i, x in enumerate(inputs) if x.is_floating_point())
        trained = [p for p in parameters if p.requires_grad]
        if seeds is None or not (floating or trained):
            return list(function(*inputs)), [None] * len(inputs), [None] * len(parameters)

        def weighted_sum(*tensors: Any) -> Any:
            """Return the sum of all outputs times their cotangents, whose gradients are the ones to compute."""
            outputs.extend(function(*tensors))
            terms = [
                (output * self.tensor(seed).astype(output.dtype)).sum()
                for output, seed in zip(outputs, seeds(outputs), strict=True)
                if seed is not None and output.is_floating_point()
            ]
            return sum(terms[1:], terms[0]) if terms else self.tensor(np.zeros((), np.float32))

        self._recording = True
        try:
            gradient = mindspore.grad(
                weighted_sum, floating or None, mindspore.ParameterTuple(trained) if trained else None
            )
            gradients = gradient(*inputs)
        finally:
            self._recording = False
        of_inputs, of_trained = gradients if floating and trained else (gradients, ()) if floating else ((), gradients)
        of_inputs = of_inputs if isinstance(of_inputs, tuple) else (of_inputs,)
        arrays = {id(p): self.array(g) for p, g in zip(trained, of_trained, strict=True)}
        places = {i: self.array(g) for i, g in zip(floating, of_inputs, strict=True)}
        return outputs, [places.get(i) for i in range(len(inputs))], [arrays.get(id(p)) for p in parameters]

    @contextlib.contextmanager
    def prepare(
        self, cell: Any, values: Mapping[int, Array], dtype: str, train: bool | None, perturbed: bool = False
    ) -> Iterator[None]:
        """Within the context, the Parameters have `values` (by `id`), in `dtype`; afterwards everything is restored."""
        cells = [inner for _, inner in cell.cells_and_names()]
        flags = [(inner, inner.training, inner.phase) for inner in cells]
        data = [(p, Tensor(p.asnumpy().copy(), p.dtype)) for p in cell.get_parameters()]
        target = getattr(mindspore, dtype)
        context = {name: mindspore.get_context(name) for name in ("mode", "pynative_synchronize")}
        # synchronous, so that a failing op raises where it is called
        mindspore.set_context(mode=mindspore.PYNATIVE_MODE, pynative_synchronize=True)
        try:
            for parameter, _ in data:
                _fill(parameter, self.tensor(values[id(parameter)]), target)
            if train is False or len({inner.training for inner in cells}) == 1:  # mixed modes are kept, as for modules
                cell.set_train(bool(train))
            yield
        finally:
            for parameter, before in data:
                _fill(parameter, before, before.dtype)
            for inner, training, phase in flags:
                inner.training, inner.phase = training, phase
            mindspore.set_context(**context)

    def observe_draws(self, observer: Callable[[str, Array], Array]) -> contextlib.AbstractContextManager[None]:
        """Do nothing: draws can't be observed."""
        return contextlib.nullcontext()

    def observe_updates(
        self, observer: Callable[[Mapping[int, Array]], None]
    ) -> contextlib.AbstractContextManager[None]:
        """Do nothing: updates can't be observed."""
        return contextlib.nullcontext()


class _BoundaryCell(nn.Cell):  # type: ignore[misc]
    """Replaces the value forward and the gradient backward."""

    def __init__(self, framework: MindSpore, passed: Array, pull: Pull) -> None:
        super().__init__(auto_prefix=False)
        self.framework = framework
        self.passed = passed
        self.pull = pull

    def construct(self, x: Any) -> Any:
        """The value passed on."""
        return self.framework.tensor(self.passed)

    def bprop(self, x: Any, out: Any, dout: Any) -> Any:
        """The gradient passed on."""
        gradient = self.pull(self.framework.array(dout))
        return (ops.zeros_like(x) if gradient is None else self.framework.tensor(gradient).astype(x.dtype),)


def _fill(parameter: Parameter, value: Any, dtype: Any) -> None:
    if parameter.is_floating_point():
        parameter.set_dtype(dtype)
    parameter.set_data(value.astype(parameter.dtype))
