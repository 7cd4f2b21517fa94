"""What a Cell holds beside its Parameters, and all of that by name: buffers and state dicts."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

from .. import checks, context
from ..common.tensor import Tensor
from .cell_base import CellBase


class Stateful(CellBase):
    """The part of a Cell that knows buffers: Tensors that belong to its state and aren't trained."""

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Hold a Tensor that isn't trained, as the attribute `name`; assign to that to give it another value.

        Args:
            name: of the attribute.
            tensor: the Tensor, or None for one that is set later.
            persistent: whether it is in `state_dict`.

        Raises:
            TypeError: an argument is of another type.
            KeyError: the name is empty, holds a dot, or is that of another attribute.
        """
        of = "register_buffer"
        checks.of_type(name, "name", str, of=of)
        checks.of_type(persistent, "persistent", bool, of=of)
        if tensor is not None:
            checks.of_type(tensor, "tensor", Tensor, of=of)
        buffers: dict[str, bool] = self.__dict__.setdefault("_buffer_names", {})
        if not name or "." in name or (hasattr(self, name) and name not in buffers):
            reason = "is that of another attribute" if name and "." not in name else "must not be empty or hold a dot"
            raise KeyError(f"For 'register_buffer', the name {name!r} {reason}")
        buffers[name] = persistent
        setattr(self, name, tensor)

    def named_buffers(self, name_prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Tensor]]:
        """The buffers by name, those of the Cells within too, unless `recurse` is False."""
        for path, name, _ in self._buffer_places(recurse):
            tensor = getattr(path[1], name)
            if tensor is not None:
                yield ".".join(filter(None, (name_prefix, path[0], name))), tensor

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers, those of the Cells within too, unless `recurse` is False."""
        for _, tensor in self.named_buffers(recurse=recurse):
            yield tensor

    def _buffer_places(self, recurse: bool) -> Iterator[tuple[tuple[str, Any], str, bool]]:
        owners: Any = self.cells_and_names() if recurse else [("", self)]
        for path, cell in owners:
            for name, persistent in cell.__dict__.get("_buffer_names", {}).items():
                yield (path, cell), name, persistent

    def state_dict(self, *, prefix: str = "") -> OrderedDict[str, Tensor]:
        """Parameters and persistent buffers by the paths that lead to them, `prefix` before each."""
        found: OrderedDict[str, Tensor] = OrderedDict()
        for path, cell in self.cells_and_names():
            for name, parameter in cell._params.items():
                found[prefix + ".".join(filter(None, (path, name)))] = parameter
            for name, persistent in cell.__dict__.get("_buffer_names", {}).items():
                if persistent and getattr(cell, name) is not None:
                    found[prefix + ".".join(filter(None, (path, name)))] = getattr(cell, name)
        return found

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> tuple[list[str], list[str]]:
        """Give Parameters and buffers the values of a state dict.

        Args:
            state_dict: Tensors by name, as `state_dict` gives them.
            strict: whether it must hold exactly the names of this Cell.

        Returns:
            The names that it lacks, and those that this Cell lacks.

        Raises:
            RuntimeError: names are missing or left over and it is to be strict, or shapes differ; nothing is set then.
        """
        own = self.state_dict()
        missing, left_over = [n for n in own if n not in state_dict], [n for n in state_dict if n not in own]
        problems = [f"missing: {missing}"] * bool(strict and missing) + [f"unknown: {left_over}"] * bool(
            strict and left_over
        )
        for name in own.keys() & state_dict.keys():
            if tuple(own[name].shape) != tuple(state_dict[name].shape):
                problems.append(f"{name}: shape {tuple(state_dict[name].shape)}, needed {tuple(own[name].shape)}")
        if problems:
            raise RuntimeError(f"For 'load_state_dict', {'; '.join(problems)}")
        for name in own.keys() & state_dict.keys():
            own[name].assign_value(Tensor(state_dict[name].asnumpy(), own[name].dtype))
        return missing, left_over

    def set_inputs(self, *inputs: Any, **kwargs: Any) -> None:
        """Declare what the Cell will be called with: one program serves all sizes that are left open.

        A placeholder, `Tensor(shape=[None, 3], dtype=ms.float32)`, leaves sizes open. In graph mode, and where
        `construct` is jitted, a call is checked against what is declared. In graph mode the Cell is traced at once, if
        all inputs are declared and their number of axes is; where its code decides on a size that is open, a call is
        compiled for the sizes that it has, as without. In eager mode sizes are always open.

        Args:
            *inputs: one for each argument: Tensors, tuples, lists and dicts of them, or what isn't a tensor.
            **kwargs: some of the arguments, by the names of parameters of `construct`.

        Raises:
            TypeError: `construct` doesn't take so many inputs.
            ValueError: both positional and keyword inputs are given, or `construct` has no parameter of a name.
        """
        if inputs and kwargs:
            raise ValueError("For 'set_inputs', inputs are given by position or by keyword, but got both")
        declared = context.graph_mode().declared_inputs(self, kwargs or inputs)
        self.__dict__["_noted_inputs"] = kwargs or inputs
        self.__dict__["_declared"] = declared
        if (compiler := context.compiler()) is not None:
            compiler.trace_declared(self, declared)

    def get_inputs(self) -> Any:
        """What `set_inputs` declared; None for nothing."""
        return self.__dict__.get("_noted_inputs")
