"""The translation of an exported torch graph to a program: walks the FX nodes and applies the ATen table."""

from __future__ import annotations

import functools
import operator
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from ...runtime.errors import CellbridgeError, ConversionError, require_supported
from ...runtime.ir.dims import Dim
from ...runtime.ir.types import Source, Type
from ...runtime.ops import boundary as boundary_ops
from ...runtime.ops import shaping
from ...runtime.ops.complex_numbers import Complex
from ...runtime.tracing import Builder, SymbolicTensor
from ..dtypes import numpy_dtype
from ..unsupported import Unsupported
from .control_flow import CALLED_IN_PLACE, HIGHER_ORDER, UntranslatedSubgraph
from .custom_backward_marks import COTANGENT, OWN_GRADIENT
from .dims import as_dim
from .marks import BOUNDARY, Marker
from .numbers import ELEMENT, compute_number, element
from .own_gradients import OwnGradients
from .places import source_of
from .tables.complex_table import COMPLEX, is_complex
from .tables.data_dependent import is_data_dependent
from .tables.table import MISSING, PLACEMENT, TABLE, Context

_CALL_INDEX = re.compile(r"@(\d+)$")


class Translator:
    """Translates one exported graph, and the graphs nested in it, into nodes of `builder`."""

    def __init__(self, builder: Builder, marker: Marker, names: Mapping[str, str]) -> None:
        self.builder = builder
        self.marker = marker
        self.names = names
        self.numbers = {(call.path, call.index): number for number, call in enumerate(marker.calls)}
        self.missing: list[tuple[str, str, str]] = []
        self.inside = 0  # the number of the call that is running after the last mark
        # the number of marks of inputs and of outputs still to come, by call
        self.inputs_left = Counter(call for call, _, is_output in marker.slots if not is_output)
        self.outputs_left = Counter(call for call, _, is_output in marker.slots if is_output)
        self.ending = {call for call, _, is_output in marker.slots if is_output}  # calls with a mark at their end
        self.own_gradients = OwnGradients(builder)
        self.equal: dict[Dim, int] = {}  # sizes that the exported graph asserts to be a number

    def run(self, module: fx.GraphModule, arguments: list[Any]) -> list[Any]:
        """Translate the graph of `module` on symbolic `arguments` and return its outputs, flat."""
        self._collect_asserted_sizes(module.graph)
        environment: dict[fx.Node, Any] = {}
        remaining = iter(arguments)
        outputs: list[Any] = []
        for node in module.graph.nodes:
            if node.op == "placeholder":
                environment[node] = next(remaining)
            elif node.op == "get_attr":
                environment[node] = getattr(module, node.target)
            elif node.op == "output":
                outputs = fx.map_arg(node.args[0], lambda n: environment[n])
            else:
                environment[node] = self._node(node, environment)
                self._pair_for_boundary(node, environment[node])
        return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]

    def run_inline(self, module: fx.GraphModule, arguments: list[Any]) -> list[Any]:
        """Translate a graph that is inlined at its call: its nodes belong to the Cell that calls it."""
        return self.for_subgraph(self.builder).run(module, arguments)

    def for_subgraph(self, builder: Builder | None = None) -> Translator:
        """Return a translator for a nested graph, which becomes a sub-program if there is no builder."""
        return _NestedTranslator(self, builder or Builder(), self.builder.cell if builder else 0)

    def _collect_asserted_sizes(self, graph: fx.Graph) -> None:
        """Record the sizes that the graph asserts to be a number (parts that add up to a known size) or equal."""
        for node in graph.nodes:
            if node.target is operator.eq and node.users and all(_asserts(user) for user in node.users):
                sides = [arg.meta.get("val") if isinstance(arg, fx.Node) else arg for arg in node.args]
                if all(isinstance(side, (int, torch.SymInt)) for side in sides):
                    try:
                        dims = [as_dim(side, self.names) for side in sides]
                    except ConversionError:  # not a size: for example a condition that counts as 0 or 1
                        continue
                    for size, number in (dims, reversed(dims)):
                        if isinstance(number, int) and not isinstance(size, int):
                            self.equal[size] = number
                    if all(map(is_data_dependent, dims)):  # for example selections by two masks that are added
                        first, second = map(str, dims)
                        self.names = {name: first if to == second else to for name, to in self.names.items()} | {
                            second: first
                        }

    def finish(self) -> None:
        """Raise `UnsupportedOperators` with all operators that couldn't be translated, if there are any."""
        require_supported(
            self.missing,
            "the model can't be converted: {} of operators without a translation",
            "compute the same with other torch operators, or convert the model without these Cells",
        )

    def _node(self, node: fx.Node, environment: Mapping[fx.Node, Any]) -> Any:
        value = node.meta.get("val")
        if isinstance(value, (torch.SymInt, int, torch.SymFloat, torch.SymBool)) and not isinstance(value, bool):
            return self._number(node, value, environment)
        cell, source = self._cell(node), source_of(node)
        try:
            args = self._resolve(node.args, environment)
            kwargs = {k: self._resolve(v, environment) for k, v in node.kwargs.items() if k not in PLACEMENT}
        except Unsupported as reason:
            return self._report_missing(node, reason, cell, source)
        if node.target is operator.getitem:
            return MISSING if args[0] is MISSING else args[0][args[1]]
        with self.builder.at(cell, source):
            if node.target is BOUNDARY:
                return self._boundary(*args)
            if node.target in (COTANGENT, OWN_GRADIENT):
                if any(leaf is MISSING for leaf in pytree.tree_leaves(args)):
                    return MISSING
                return (
                    self.own_gradients.cotangent(*args)
                    if node.target is COTANGENT
                    else self.own_gradients.finish(*args)
                )
            return self._translate(node, args, kwargs, cell, source)

    def _pair_for_boundary(self, node: fx.Node, value: Any) -> None:
        """Create pairs that cross a boundary in the Cell that computes them, not in the Cell that they enter."""
        if isinstance(value, Complex) and any(user.target is BOUNDARY for user in node.users):
            with self.builder.at(self._cell(node), source_of(node)):
                value.pair()

    def _number(self, node: fx.Node, value: Any, environment: Mapping[fx.Node, Any]) -> Any:
        """A Python number that the model computes."""
        if _is_for_checks(node):
            return None
        dim = None if isinstance(value, (torch.SymFloat, torch.SymBool)) else as_dim(value, self.names)
        if dim is not None and node.target not in ELEMENT:
            return dim
        args = self._resolve(node.args, environment)
        if any(leaf is MISSING for leaf in pytree.tree_leaves(args)):
            return MISSING
        cell, source = self._cell(node), source_of(node)
        with self.builder.at(cell, source):
            if node.target in ELEMENT:
                return element(self.builder, args[0], value, dim)
            result = compute_number(self.builder, node.target, args)
            return self._report_missing(node, Unsupported("on numbers"), cell, source) if result is None else result

    def _translate(self, node: fx.Node, args: Any, kwargs: Any, cell: int, source: Source) -> Any:
        name = str(node.target)
        leaves = pytree.tree_leaves((args, kwargs))
        of_complex = is_complex(node.meta.get("val")) or any(isinstance(leaf, Complex) for leaf in leaves)
        translation = (COMPLEX if of_complex else TABLE).get(name)
        if isinstance(node.target, torch._ops.HigherOrderOperator) and (not of_complex or name in CALLED_IN_PLACE):
            translation = functools.partial(HIGHER_ORDER[name], self) if name in HIGHER_ORDER else None
        try:
            if translation is None:
                raise Unsupported("on complex numbers" if of_complex else "")
            if any(leaf is MISSING for leaf in leaves):
                return MISSING
            value = node.meta.get("val")
            try:
                types = self._types(value)
            except ConversionError as error:  # about sizes
                raise Unsupported(str(error)) from error
            operands = fx.map_arg(node.args, lambda n: n.meta.get("val"))
            context = Context(self.builder, types, _output_uses(node, len(types)), operands, is_complex(value))
            result = translation(context, *args, **kwargs)
        except UntranslatedSubgraph:
            return MISSING
        except Unsupported as reason:
            return self._report_missing(node, reason, cell, source)
        except CellbridgeError as error:
            raise ConversionError(
                f"{node.target} in Cell {self.marker.calls[cell]} was translated wrongly: {error}\n  at {source}\n"
                "  this is a bug in cellbridge, please report it"
            ) from error
        self._check(node, types, result, source)
        return self._apply_asserted_sizes(result, types) if self.equal else result

    def _apply_asserted_sizes(self, result: Any, types: tuple[Type | None, ...]) -> Any:
        """The result with sizes replaced by the numbers that the graph asserts, which the ops can't infer."""
        if not isinstance(result, SymbolicTensor) or types[0] is None:
            return result
        has_number = any(
            isinstance(e, int) and not isinstance(s, int) for e, s in zip(types[0].shape, result.shape, strict=True)
        )
        return shaping.reshape(result, shape=types[0].shape) if has_number else result

    def _report_missing(self, node: fx.Node, reason: Unsupported, cell: int, source: Source) -> Any:
        """Add an operator to the list of those that can't be translated."""
        name = node.args[1] if node.target is torch.ops.higher_order.with_effects else node.target
        label = f"{name}{f' ({reason})' if str(reason) else ''}"
        self.missing.append((label, str(self.marker.calls[cell]), str(source)))
        return MISSING

    def _check(self, node: fx.Node, types: tuple[Type | None, ...], result: Any, source: Source) -> None:
        """Compare the types that the ops inferred with those that torch inferred."""
        results = result if isinstance(result, (tuple, list)) else (result,)
        for expected, traced in zip(types, results, strict=False):
            if isinstance(traced, Complex):
                self._check(node, (expected,) * 2, (traced.real, traced.imaginary), source)
            if expected is None or not isinstance(traced, SymbolicTensor):
                continue
            same = traced.dtype == expected.dtype and len(traced.shape) == len(expected.shape)
            pairs = zip(traced.shape, expected.shape, strict=False)
            if not same or any(a != b for a, b in pairs if isinstance(a, int) and isinstance(b, int)):
                raise ConversionError(
                    f"{node.target} was translated wrongly: it returns {traced.value.type}, torch {expected}\n"
                    f"  at {source}\n  this is a bug in cellbridge, please report it"
                )

    def _types(self, values: Any) -> tuple[Type | None, ...]:
        items = values if isinstance(values, (tuple, list)) else (values,)
        return tuple(self._type(item) if isinstance(item, torch.Tensor) else None for item in items)

    def _type(self, tensor: torch.Tensor) -> Type:
        dims = (as_dim(size, self.names) for size in tensor.shape)
        return Type(numpy_dtype(tensor.dtype), tuple(self.equal.get(dim, dim) for dim in dims))

    def _boundary(self, x: Any, call: int, position: int, is_output: bool) -> Any:
        kind = "output" if is_output else "input"
        self.inputs_left[call] -= not is_output
        self.outputs_left[call] -= is_output
        if is_output or not self.inputs_left[call]:
            self.inside = self._after(call, is_output)
        if x is MISSING:
            return x
        # a call's input boundaries belong to the Cell itself
        with self.builder.at(call, self.builder.source):
            slot = self.marker.slots[call, position, is_output]
            if isinstance(x, Complex):
                return Complex.from_pair(boundary_ops.boundary(x.pair(), call=call, kind=kind, slot=slot))
            return boundary_ops.boundary(x, call=call, kind=kind, slot=slot)

    def _resolve(self, argument: Any, environment: Mapping[fx.Node, Any]) -> Any:
        if isinstance(argument, fx.Node):
            return environment[argument]
        if isinstance(argument, (list, tuple)):
            return [self._resolve(item, environment) for item in argument]
        if isinstance(argument, torch.dtype):
            return numpy_dtype(argument)
        return argument

    def _cell(self, node: fx.Node) -> int:
        """The number of the innermost known call that the node ran in.

        torch's module stack is used only within the call that the marks lead into. It counts the calls of a module with
        two names separately, and assigns the end of a `no_grad` region to the call in which the region began. A view of
        a tensor changed in place is created again where it is used, which may be as the input of a call that hasn't
        begun.
        """
        for key, (path, _) in reversed((node.meta.get("nn_module_stack") or {}).items()):
            index = _CALL_INDEX.search(key)
            number = self.numbers.get((path, int(index[1]) if index else 0))
            if number is not None and not self.inputs_left[number] and not self._has_ended(number):
                return number if self.inside in self._ancestors(number) else self.inside
        return self.inside

    def _has_ended(self, number: int) -> bool:
        """Whether all outputs of a call, or of one that contains it, have been marked."""
        return any(call in self.ending and not self.outputs_left[call] for call in self._ancestors(number))

    def _after(self, call: int, is_output: bool) -> int:
        """The call that is running after a mark; a call without a mark at its end is left to torch's module stack."""
        lineage = self._ancestors(call)[1:] if is_output else self._ancestors(call)
        return next((number for number in lineage if number in self.ending), 0)

    def _ancestors(self, number: int) -> list[int]:
        """The call itself, its parent, and so on to the root."""
        lineage = [number]
        while (parent := self.marker.calls[lineage[-1]].parent) is not None:
            lineage.append(parent)
        return lineage


class _NestedTranslator(Translator):
    """Translates a nested graph; all its nodes belong to one Cell."""

    def __init__(self, outer: Translator, builder: Builder, cell: int) -> None:
        super().__init__(builder, outer.marker, outer.names)
        self.missing = outer.missing
        self.cell = cell

    def _cell(self, node: fx.Node) -> int:
        return self.cell

    def _boundary(self, x: Any, call: int, position: int, is_output: bool) -> Any:
        return x


def _is_for_checks(node: fx.Node) -> bool:
    """Whether a condition, or a number used in conditions only, is used by checks only."""
    if isinstance(node.meta.get("val"), torch.SymBool):
        return all(_asserts(user) or _is_for_checks(user) for user in node.users)
    is_number = isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat))
    return is_number and bool(node.users) and all(_is_for_checks(user) for user in node.users)


def _asserts(node: fx.Node) -> bool:
    return "assert" in str(node.target) or node.target is torch._check


def _output_uses(node: fx.Node, count: int) -> tuple[bool, ...]:
    """For each output of a node, whether it has a user."""
    if not isinstance(node.meta.get("val"), (tuple, list)):
        return (bool(node.users),)
    used_positions = {user.args[1] for user in node.users if user.target is operator.getitem}
    return tuple(position in used_positions for position in range(count))
