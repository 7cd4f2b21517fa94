"""Buffers of a Cell, its state dict, and its declared inputs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

from .. import checks, context
from ..common.tensor import Tensor
from .cell_base import CellBase


class Stateful(CellBase):
    """The part of a Cell that manages buffers: Tensors that belong to its state and aren't trained."""

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Register an untrained Tensor as the attribute `name`; assign to the attribute to replace it.

        Args:
            name: the name of the attribute.
            tensor: the Tensor, or None if it is set later.
            persistent: whether `state_dict` includes it.

        Raises:
            TypeError: an argument has a wrong type.
            KeyError: the name is empty, contains a dot, or belongs to another attribute.
        """
        of = "register_buffer"
        checks.of_type(name, "name", str, of=of)
        checks.of_type(persistent, "persistent", bool, of=of)
        if tensor is not None:
            checks.of_type(tensor, "tensor", Tensor, of=of)
        buffers: dict[str, bool] = self.__dict__.setdefault("_buffer_names", {})
        if not name or "." in name or (hasattr(self, name) and name not in buffers):
            reason = (
                "belongs to another attribute" if name and "." not in name else "must not be empty or contain a dot"
            )
            raise KeyError(f"For 'register_buffer', the name {name!r} {reason}")
        buffers[name] = persistent
        setattr(self, name, tensor)

    def named_buffers(self, name_prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Tensor]]:
        """Yield the buffers by name, including those of inner Cells unless `recurse` is False."""
        for path, cell, name in self._buffer_owners(recurse):
            tensor = getattr(cell, name)
            if tensor is not None:
                yield ".".join(filter(None, (name_prefix, path, name))), tensor

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yield the buffers, including those of inner Cells unless `recurse` is False."""
        for _, tensor in self.named_buffers(recurse=recurse):
            yield tensor

    def _buffer_owners(self, recurse: bool) -> Iterator[tuple[str, Any, str]]:
        """Yield the path and the Cell that each buffer belongs to, and its name there."""
        owners: Any = self.cells_and_names() if recurse else [("", self)]
        for path, cell in owners:
            for name in cell.__dict__.get("_buffer_names", {}):
                yield path, cell, name

    def state_dict(self, *, prefix: str = "") -> OrderedDict[str, Tensor]:
        """Return the Parameters and persistent buffers by path, each with `prefix`."""
        result: OrderedDict[str, Tensor] = OrderedDict()
        for path, cell in self.cells_and_names():
            for name, parameter in cell._params.items():
                result[prefix + ".".join(filter(None, (path, name)))] = parameter
            for name, persistent in cell.__dict__.get("_buffer_names", {}).items():
                if persistent and getattr(cell, name) is not None:
                    result[prefix + ".".join(filter(None, (path, name)))] = getattr(cell, name)
        return result

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> tuple[list[str], list[str]]:
        """Load the values of Parameters and buffers from a state dict.

        Args:
            state_dict: Tensors by name, as `state_dict` returns them.
            strict: whether its names must be exactly those of this Cell.

        Returns:
            The names missing from the state dict, and the names in it that this Cell doesn't have.

        Raises:
            RuntimeError: names are missing or unknown and `strict` is True, or shapes differ; then nothing is
                loaded.
        """
        state = self.state_dict()
        missing, unknown = [n for n in state if n not in state_dict], [n for n in state_dict if n not in state]
        problems = [f"missing: {missing}"] * bool(strict and missing) + [f"unknown: {unknown}"] * bool(
            strict and unknown
        )
        for name in state.keys() & state_dict.keys():
            if tuple(state[name].shape) != tuple(state_dict[name].shape):
                problems.append(
                    f"{name}: needed shape {tuple(state[name].shape)}, but got {tuple(state_dict[name].shape)}"
                )
        if problems:
            raise RuntimeError(f"For 'load_state_dict', {'; '.join(problems)}")
        for name in state.keys() & state_dict.keys():
            state[name].assign_value(Tensor(state_dict[name].asnumpy(), state[name].dtype))
        return missing, unknown

    def set_inputs(self, *inputs: Any, **kwargs: Any) -> None:
        """Declare the inputs of the Cell, so that one program serves calls of any size along the open axes.

        A placeholder such as `Tensor(shape=[None, 3], dtype=ms.float32)` has an open axis for each None. In graph mode,
        and if `construct` is jitted, calls are checked against the declaration. In graph mode, the Cell is traced
        immediately if all inputs and their ranks are declared. If its code branches on an open size, each call is
        compiled for its own sizes, as without a declaration. In eager mode, all sizes are open.

        Args:
            *inputs: one for each argument: Tensors, tuples, lists and dicts of them, or other values.
            **kwargs: some of the arguments, by the names of parameters of `construct`.

        Raises:
            TypeError: `construct` takes fewer inputs.
            ValueError: both positional and keyword inputs are given, or `construct` has no parameter of a given name.
        """
        if inputs and kwargs:
            raise ValueError("For 'set_inputs', inputs are given by position or by keyword, but got both")
        declared = context.graph_mode().declared_inputs(self, kwargs or inputs)
        self.__dict__["_declared_inputs"] = kwargs or inputs
        self.__dict__["_declared"] = declared
        if (compiler := context.compiler()) is not None:
            compiler.trace_declared(self, declared)

    def get_inputs(self) -> Any:
        """Return the inputs that `set_inputs` declared; None if there are none."""
        return self.__dict__.get("_declared_inputs")
