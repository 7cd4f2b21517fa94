"""The Cell side: a port, run eagerly and watched at the boundaries that its module has too.

Boundaries, parameters and random draws are recorded under the module's names, so that they can be compared with the
records of the torch side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from ...converter.capture.other_numbers import other_numbers
from ...runtime.errors import ConversionError
from ...runtime.ir.types import FLOAT64, as_dtype
from ...runtime.programs.call import as_array
from ..correspondence.cells import Pairing
from ..correspondence.layouts import Layout
from ..dtypes import cast_floating, in_single
from ..results.hunk import CodeLine
from ..results.notes import warnings_as_notes
from ..weights.mapping import Weights
from .cell_arguments import arguments_for
from .cell_watcher import Watcher
from .definitions import construction_of, definition_of
from .eager import Eager
from .frameworks import Framework, checks_of
from .interpreter_side import InterpreterSide
from .kept_state import KeptState
from .port_program import in_names_of_module, trace_port
from .records import Array, Key, Records
from .run import Arguments, Run
from .side import Capabilities, OwnCalls, ParameterInfo


@dataclass(frozen=True, eq=False, repr=False)
class CellSide:
    """A Cell and the inputs that it is run on; a run leaves the Cell unchanged.

    Attributes:
        framework: the Cell's framework.
        cell: the Cell.
        module: the module that it is the port of.
        args: the module's positional inputs.
        kwargs: the module's keyword inputs.
        pairing: the pairs of modules and Cells.
        weights: the Parameters and what they are in the module.
        layouts: layouts of tensors that differ in the Cell, by boundary.
        train: its mode; None for the modes that its parts are in.
        working_dtype: the dtype whose rounding is judged.
    """

    framework: Framework
    cell: Any
    module: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    pairing: Pairing
    weights: Weights
    layouts: Mapping[Key, Layout]
    _: KW_ONLY
    train: bool | None = False
    working_dtype: str = "float32"

    def __post_init__(self) -> None:
        arguments_for(self.cell, self.module, self.args, self.kwargs)  # raises `UsageError` before anything is run

    @property
    def name(self) -> str:
        """The framework's name."""
        return self.framework.name

    @property
    def dtype(self) -> np.dtype[Any]:
        """The working dtype."""
        return as_dtype(self.working_dtype)

    @property
    def arguments(self) -> Arguments:
        """The Cell's inputs."""
        return self._own_arguments((self.args, dict(self.kwargs)))

    @property
    def capabilities(self) -> Capabilities:
        """Those of a port, as far as its framework goes."""
        calls = OwnCalls(live=True, keeps_state=self.framework.replays)
        return Capabilities(checks_of(self.framework, self.working_dtype), is_port=True, calls=calls)

    def parameters(self) -> dict[str, ParameterInfo]:
        """The module's parameters, with the Cell's own flags of whether they are trained.

        A parameter without a counterpart is a mismatch of `weights`; here it has the module's flag.
        """
        result = {}
        for name, trainable in self.weights.trainable.items():
            flags = {bool(entry.parameter.requires_grad) for entry in self.weights.of(name)} or {trainable}
            trained = all(flags) if trainable else any(flags)
            result[name] = ParameterInfo(self.weights.arrays[name], trained)
        return result

    def integers(self) -> set[int]:
        """Sizes of parameters, and integers among the attributes of Cells."""
        sizes = {size for info in self.parameters().values() for size in info.data.shape}
        return sizes | {n for _, inner in self.cell.cells_and_names() for n in vars(inner).values() if type(n) is int}

    def in_interpreter(self, run: Run | None = None) -> InterpreterSide:
        """Return the Cell as a program, in the names of the module, on the inputs, in the mode and dtype of a run.

        Raises:
            CellbridgeError: it can't be traced.
        """
        if not isinstance(self.framework, Eager):
            raise ConversionError(f"Cells of {self.framework.name} can't be traced")
        call_arguments = None if run is None else run.call.arguments
        args, kwargs = self.arguments if call_arguments is None else self._own_arguments(call_arguments)
        train = not self.train if run is not None and run.call.other_mode else self.train
        # by default in float64, in which numbers such as 1 / sqrt(3) keep their digits
        dtype = "float64" if run is None else run.dtype
        with self.framework.prepare(self.cell, self._values(), dtype, train), warnings_as_notes():
            traced = trace_port(self.cell, args, kwargs, dtype)
        program = in_names_of_module(traced, self.pairing, self.weights)
        if dtype != self.working_dtype:  # its own casts are kept in its own dtype
            program = program.astype(self.working_dtype)
        return InterpreterSide(self.name, program, args, kwargs, working_dtype=self.working_dtype)

    def definition(self, path: str) -> CodeLine | None:
        """The line at which `construct` of the port of the module at a path begins; None if it has no port."""
        port = self.pairing.cell_of.get(path)
        cells = dict(self.cell.cells_and_names())
        return definition_of(cells[port].construct) if port in cells else None

    def construction(self, path: str) -> CodeLine | None:
        """The statement that makes the port of the module at a path; None if it has none, or it isn't known."""
        port = self.pairing.cell_of.get(path, "")
        return construction_of(dict(self.cell.cells_and_names()), port)

    def _values(self) -> dict[int, Array]:
        """The values of the Parameters, by `id`."""
        entries = self.weights.unique()
        return {id(entry.parameter): cast_floating(self.weights.value(entry), self.dtype) for entry in entries}

    def _with_steps(self, values: dict[int, Array], steps: Mapping[str, Array]) -> dict[int, Array]:
        """Return the values in float64, with what they change by if the module's parameters change by these steps."""
        double = {name: cast_floating(array, FLOAT64) for name, array in self.weights.arrays.items()}
        moved = {name: array + steps[name] if name in steps else array for name, array in double.items()}
        result = dict(values)
        for name in steps:
            for entry in self.weights.of(name):
                assert entry.arrangement is not None
                key, change = id(entry.parameter), entry.arrangement.to_cell(moved) - entry.arrangement.to_cell(double)
                result[key] = cast_floating(values[key], FLOAT64) + change
        return result

    def run(self, run: Run) -> Records:
        """Run once; see `Run`."""
        entries = self.weights.unique()
        parameters = [entry.parameter for entry in entries]
        values = self._values()
        if run.numbers.parameter_steps:
            values = self._with_steps(values, run.numbers.parameter_steps)
        unfed = replace(run, feed=None)
        watcher = Watcher(self.framework, self.cell, self.pairing, self.weights, self.layouts, unfed)
        train = not self.train if run.call.other_mode else self.train
        with (
            self.framework.prepare(self.cell, values, run.dtype, train, bool(run.numbers.perturbed)),
            watcher.watching(),
        ):
            own_arguments = self.arguments
            state = KeptState([] if run.call.forget is None else self._cells_by_module())
            for arguments in (
                [own_arguments] if run.call.second is not None else map(self._own_arguments, run.call.before)
            ):
                before, arrays = self._caller(watcher, arguments)
                self.framework.run(before, self._inputs(arrays, run.dtype), parameters, None)
                watcher.restart(unfed)
            watcher.restart(run)
            watcher.records.state.kept = state.changed()
            state.restore(run.call.forget or ())
            call, arrays = self._caller(
                watcher, own_arguments if run.call.arguments is None else self._own_arguments(run.call.arguments)
            )
            if run.call.second == "varied":
                arrays = [other_numbers(in_single(array, self.dtype)) for array in arrays]
            inputs = self._inputs(arrays, run.dtype)
            seeds = watcher.seeds if run.wanted.grads else None
            records = watcher.records
            try:
                _, _, gradients = self.framework.run(call, inputs, parameters, seeds)
            except Exception as error:
                if not watcher.note_backward_exception(error):
                    raise
            if run.wanted.grads and not records.faults.broken:
                self._record_gradients(records, dict(zip(map(id, parameters), gradients, strict=True)))
            self._record_updates(records, {id(p): self.framework.array(p) for p in parameters}, as_dtype(run.dtype))
        return records

    def _cells_by_module(self) -> list[tuple[str, Any]]:
        """The Cells, each with the path of the module that it is the port of, or its own."""
        modules = {pair.cell: pair.module for pair in self.pairing.pairs}
        return [(modules.get(path, path), inner) for path, inner in self.cell.cells_and_names()]

    def _own_arguments(self, arguments: Arguments) -> Arguments:
        """The Cell's arguments, from the module's."""
        return arguments_for(self.cell, self.module, *arguments)

    def _caller(self, watcher: Watcher, arguments: Arguments) -> tuple[Callable[..., list[Any]], list[Array]]:
        """Return a function that calls the Cell with other tensors in its arguments, and their arrays."""
        leaves, structure = pytree.tree_flatten(arguments)
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, (torch.Tensor, np.ndarray))]

        def call(*tensors: Any) -> list[Any]:
            for position, tensor in zip(places, tensors, strict=True):
                leaves[position] = tensor
            args, kwargs = pytree.tree_unflatten(leaves, structure)
            return watcher.run_cell(lambda: self.cell(*args, **kwargs))

        return call, [as_array(leaves[position]) for position in places]

    def _inputs(self, arrays: Sequence[Array], dtype: str) -> list[Any]:
        """Return the inputs as tensors, rounded to the working dtype first."""
        return [
            self.framework.tensor(cast_floating(cast_floating(array, self.dtype), as_dtype(dtype))) for array in arrays
        ]

    def _record_gradients(self, records: Records, gradients: dict[int, Array | None]) -> None:
        of_module = self.weights.to_module(gradients)
        records.gradients.parameters = {
            name: of_module.get(name)
            for name, trainable in self.weights.trainable.items()
            if trainable and name not in self.weights.unseen
        }
        for name, gradient in of_module.items():  # trained in the port, a buffer or frozen in the module
            if name not in self.weights.unseen:
                records.gradients.parameters.setdefault(name, gradient)

    def _record_updates(self, records: Records, after: dict[int, Array], dtype: np.dtype[Any]) -> None:
        entries = self.weights.unique()
        before = {
            id(e.parameter): cast_floating(cast_floating(self.weights.value(e), self.dtype), dtype) for e in entries
        }
        changed = {key for key, array in after.items() if not np.array_equal(array, before[key])}
        for name, array in self.weights.values_in_module(after).items():
            if name not in self.weights.trainable and name not in self.weights.ignored:
                updated = any(id(entry.parameter) in changed for entry in self.weights.of(name))
                (records.state.updates if updated else records.state.buffers)[name] = array
