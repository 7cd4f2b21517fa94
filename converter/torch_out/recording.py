"""The conversion of a recorded `torch.fx` graph to a `Graph`. Of `torch.fx`, only the recorder is used."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import torch
from torch import fx

from . import walk
from .walk import ForwardParameter, Graph, Step


def to_graph(
    recorded: fx.Graph, parameters: Sequence[ForwardParameter], bodies: Collection[str], elsewhere: Collection[str]
) -> Graph:
    """The `Graph` of a recorded graph.

    Args:
        recorded: the recorded graph; its placeholders are the parameters, in order.
        parameters: the parameters of `forward`.
        bodies: names of sub-programs.
        elsewhere: names of modules that aren't below the one that calls them.
    """
    return _Steps(recorded, parameters, bodies, elsewhere).graph()


class _Place(NamedTuple):
    """The place of a value: its kind, "given", "constant" or "result", and its index among those."""

    kind: str
    number: int


_MODULE = _Place("given", 0)


class _Steps:
    def __init__(
        self,
        recorded: fx.Graph,
        parameters: Sequence[ForwardParameter],
        bodies: Collection[str],
        elsewhere: Collection[str],
    ) -> None:
        self.recorded = recorded
        self.parameters = tuple(parameters)
        self.bodies = bodies
        self.elsewhere = elsewhere
        self.constants: list[Any] = []
        self.calls: list[tuple[Any, list[_Place], dict[str, _Place]]] = []
        self.names: list[str] = []
        self.places: dict[fx.Node, _Place] = {}

    def graph(self) -> Graph:
        """The whole graph."""
        placeholders = self.recorded.find_nodes(op="placeholder")
        self.places.update((node, _Place("given", i)) for i, node in enumerate(placeholders, 1))
        result = _MODULE
        for node in self.recorded.nodes:
            if node.op == "output":
                result = self._argument(node.args[0])
            elif node.op != "placeholder":
                self.places[node] = self._node(node)
        return self._number_places(result)

    def _node(self, node: fx.Node) -> _Place:
        args = [self._argument(argument) for argument in node.args]
        kwargs = {name: self._argument(argument) for name, argument in node.kwargs.items()}
        target: Any = node.target
        if node.op == "call_function":
            return self._step(target, args, kwargs, node.name)
        if node.op == "call_method":  # the names come from the forms, not from the file
            return self._step(getattr(torch.Tensor, target), args, kwargs, node.name)
        if node.op == "get_attr":
            named = target in self.bodies
            function: Any = walk.body if named else walk.get_state
        else:
            named = target in self.elsewhere
            function = walk.call_elsewhere if named else walk.call
        where = self._constant(target if named else tuple(target.split(".")))
        return self._step(function, [_MODULE, where, *args], kwargs, node.name)

    def _step(self, function: Any, args: list[_Place], kwargs: dict[str, _Place], name: str) -> _Place:
        self.calls.append((function, args, kwargs))
        self.names.append(name)
        return _Place("result", len(self.calls) - 1)

    def _argument(self, argument: Any) -> _Place:
        """The place of an argument. A list, a dict, or a tuple or slice that contains values is built by a step."""
        if isinstance(argument, fx.Node):
            return self.places[argument]
        if isinstance(argument, dict):
            items = [self._argument(item) for item in argument.values()]
            return self._step(walk.make_dict, [self._constant(tuple(argument)), *items], {}, "made")
        if isinstance(argument, list):
            return self._step(walk.make_list, [self._argument(item) for item in argument], {}, "made")
        if isinstance(argument, tuple) and not _is_constant(argument):
            return self._step(walk.make_tuple, [self._argument(item) for item in argument], {}, "made")
        if isinstance(argument, slice) and not _is_constant(argument):
            parts = argument.start, argument.stop, argument.step
            return self._step(slice, [self._argument(part) for part in parts], {}, "made")
        return self._constant(argument)

    def _constant(self, value: Any) -> _Place:
        self.constants.append(value)
        return _Place("constant", len(self.constants) - 1)

    def _number_places(self, result: _Place) -> Graph:
        first_constant = 1 + len(self.parameters)
        first_result = first_constant + len(self.constants)
        offsets = {"given": 0, "constant": first_constant, "result": first_result}

        def index(reference: _Place) -> int:
            return offsets[reference.kind] + reference.number

        needed = {index(result)}
        steps: list[Step] = []
        for number, (function, args, kwargs) in reversed(list(enumerate(self.calls))):
            operands, result_index = tuple(map(index, args)), first_result + number
            keywords = tuple((name, index(argument)) for name, argument in kwargs.items())
            touched = {*operands, *(at for _, at in keywords), result_index}
            unneeded = sorted(p for p in touched - needed if p >= first_result or 0 < p < first_constant)
            needed |= touched
            steps.append(Step(function, operands, keywords, result_index, tuple(unneeded)))
        names = ("self", *(p.name for p in self.parameters), *("" for _ in self.constants), *self.names)
        return Graph(self.parameters, tuple(self.constants), tuple(steps[::-1]), index(result), names)


def _is_constant(argument: Any) -> bool:
    """Whether an argument contains neither values nor lists and dicts, which a function could change."""
    if isinstance(argument, slice):
        return _is_constant((argument.start, argument.stop, argument.step))
    if isinstance(argument, tuple):
        return all(map(_is_constant, argument))
    return not isinstance(argument, (fx.Node, list, dict))
