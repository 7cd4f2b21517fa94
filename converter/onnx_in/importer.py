"""The translation of ONNX nodes to ops: applies the table, folds constants and inlines functions."""

from __future__ import annotations

import copy
import functools
import itertools
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Sequence as Items
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto

from ...runtime.errors import CellbridgeError, ConversionError, UnsupportedOperators, require_supported
from ...runtime.ir.types import Source, Type
from ...runtime.programs.interpreter import FAILURES
from ...runtime.tracing import Builder, SymbolicTensor
from ..unsupported import Unsupported
from . import folding
from .choices import Choices
from .model import protos
from .model.cells import CellPaths
from .model.functions import MAX_DEPTH, MAX_NODES, function_body
from .model.initializers import Initializers
from .model.order import topological_order
from .model.schemas import require_complete, require_valid
from .model.subprograms import MISSING, Draft, Incomplete
from .model.values import Imported, KnownTensor, Optional, Pieces, Sequence, known_tensor
from .model.written import describe_attributes, settings_of
from .tables import load_all
from .tables.context import Context
from .tables.table import TABLE, Translation

STANDARD = ("", "ai.onnx")
LATEST = onnx.defs.onnx_opset_version()


@dataclass(frozen=True)
class Scope:
    """The names and versions that apply to a node.

    Attributes:
        values: values by name, including those of enclosing graphs, which can be shadowed but not changed.
        opsets: opset versions by domain.
        call_attributes: in the body of a function, the attributes of its call.
        depth: the number of enclosing functions and sub-graphs.
        call: name of the node that calls the function, empty outside functions.
        declared: declared types by name.
    """

    values: ChainMap[str, Any]
    opsets: Mapping[str, int]
    call_attributes: Mapping[str, AttributeProto] | None = None
    depth: int = 0
    call: str = ""
    declared: Mapping[str, Type] = field(default_factory=dict)


def read_opsets(imports: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    """Opset versions by domain; raises `ConversionError` for a version that doesn't exist."""
    opsets = {"" if o.domain in STANDARD else o.domain: o.version for o in imports}
    for domain, version in opsets.items():
        newest = LATEST if domain == "" else 2**31 - 1
        if not 1 <= version <= newest:
            name = f"opset {version}" + (f" of domain {domain!r}" if domain else "")
            raise ConversionError(f"the model uses {name}; supported are 1 to {newest}")
    return opsets


class Importer:
    """Imports the nodes of one model into `builder`."""

    def __init__(
        self,
        builder: Builder,
        initializers: Initializers,
        cells: CellPaths,
        functions: Mapping[tuple[str, str, str], FunctionProto],
        types: Callable[[], Mapping[str, Type]],
        folder: Path | None,
        size: int,
        choices: Choices,
    ) -> None:
        """`size` is the number of nodes in the model after all functions are inlined."""
        load_all()
        self.builder = builder
        self.initializers = initializers
        self.cells = cells
        self.functions = functions
        self.types = types
        self.folder = folder
        self.choices = choices
        self.missing: list[tuple[str, str, str]] = []
        self.nodes_left = itertools.count(MAX_NODES + size, -1)  # nodes that may still be imported, in sub-programs too
        self.budget = folding.Budget()
        self.is_subprogram = False  # sub-programs have no Cells of their own

    def import_graph(self, graph: GraphProto, scope: Scope) -> tuple[Any, ...]:
        """Import all nodes of a graph whose inputs are in the scope; return its outputs."""
        for tensor in graph.initializer:
            self.define(scope, tensor.name, self.initializers.initializer(tensor))
        for sparse in graph.sparse_initializer:
            self.define(scope, sparse.values.name, self.initializers.sparse_initializer(sparse))
        self.import_nodes(topological_order(graph.node), scope)
        return tuple(self.lookup(scope, output.name, "the outputs of the graph") for output in graph.output)

    def import_nodes(self, nodes: Iterable[NodeProto], scope: Scope) -> None:
        """Import nodes in order."""
        for position, node in enumerate(nodes):
            if next(self.nodes_left) <= 0:
                raise ConversionError(
                    f"with its loops unrolled and functions inlined, the model has more than {MAX_NODES} nodes"
                )
            metadata = [entry.value for entry in node.metadata_props]
            protos.require_text(node.name, node.op_type, node.domain, *node.input, *node.output, *metadata)
            label = node.name or f"{node.op_type}_{position}"
            where = f"{node.op_type} node {label!r}" + (f" in function call {scope.call!r}" if scope.call else "")
            operands = [self.lookup(scope, name, where) if name else None for name in node.input]
            call = 0 if self.is_subprogram else self.cells.call_of(node, self.builder.cell)
            described = describe_attributes(node)
            operator = f"{node.op_type} {label}" + (f" ({described})" if described else "")
            domain = "" if node.domain in STANDARD else node.domain
            settings = settings_of(node, domain, scope.opsets[domain]) if domain in scope.opsets else ()
            with self.builder.at(call, Source("", 0, "", operator, settings)):
                results = self.import_node(node, operands, scope, where)
            for name, value in zip(node.output, results, strict=False):
                if name:
                    self.define(scope, name, value)

    def define(self, scope: Scope, name: str, value: Any) -> None:
        """Add a value to the scope; raise `ConversionError` if the name is already assigned in that graph."""
        protos.require_text(name)
        if name in scope.values.maps[0]:
            raise ConversionError(f"value {name!r} is assigned twice")
        scope.values[name] = value

    def lookup(self, scope: Scope, name: str, where: str) -> Any:
        """The value of a name; raises `ConversionError` if no earlier node computes it."""
        if name not in scope.values:
            raise ConversionError(f"{where}: value {name!r} is used before anything computes it")
        return scope.values[name]

    def import_node(self, node: NodeProto, operands: list[Any], scope: Scope, where: str) -> Items[Any]:
        """Import a node and return its outputs."""
        domain = "" if node.domain in STANDARD else node.domain
        if any(x is MISSING for x in operands):
            return (MISSING,) * len(node.output)
        local = self.functions.get((node.domain, node.op_type, node.overload))
        if local is not None:
            return self.inline_function(local, node, operands, scope, where)
        if domain not in scope.opsets:
            raise ConversionError(f"{where}: the model doesn't import the domain {domain or 'ai.onnx'!r}")
        translation = TABLE.get((domain, node.op_type))
        if len({proto.name for proto in node.attribute}) < len(node.attribute):
            raise ConversionError(f"{where}: an attribute is given twice")
        for proto in node.attribute:
            if (attribute := protos.resolve_reference(proto, scope.call_attributes)) is not None:
                require_valid(domain, node.op_type, scope.opsets[domain], attribute, proto.name, where)
        attributes = {
            proto.name for proto in node.attribute if protos.resolve_reference(proto, scope.call_attributes) is not None
        }
        inputs = [_kind_of(x) for x in operands]
        require_complete(domain, node.op_type, scope.opsets[domain], inputs, attributes, where)
        try:
            if translation is None:
                body = function_body(node, domain, scope.opsets[domain], [_type_of(x) for x in operands])
                if body is None:
                    raise Unsupported("")
                return self.inline_function(body, node, operands, scope, where)
            return self.translate(translation, node, operands, scope, where)
        except Unsupported as reason:
            label = f"{f'{domain}.' if domain else ''}{node.op_type}{f' ({reason})' if str(reason) else ''}"
            self.missing.append((label, self.cells.path(self.builder.cell), where))
            return (MISSING,) * len(node.output)
        except UnsupportedOperators:
            raise
        except ConversionError as error:
            raise error if where in str(error) else ConversionError(f"{where}: {error}") from error
        except CellbridgeError as error:
            raise ConversionError(f"{where} can't be imported: {error}") from error
        except Incomplete:
            return (MISSING,) * len(node.output)
        except FAILURES as error:
            descriptions = ", ".join(_describe(x) for x in operands) or "no operands"
            detail = f"{type(error).__name__}: {error}"
            raise ConversionError(f"{where} doesn't take {descriptions} with these attributes ({detail})") from error

    def translate(
        self, translation: Translation, node: NodeProto, operands: list[Any], scope: Scope, where: str
    ) -> Items[Any]:
        """Apply an entry of the table."""
        attributes = self.attributes(translation, node, scope, where)
        if not translation.variadic and len(operands) > len(translation.operands):
            raise ConversionError(
                f"{where}: given {len(operands)} operands, the operator takes {len(translation.operands)}"
            )
        tensors = [
            x
            for name, x in zip(translation.operand_names(len(operands)), operands, strict=True)
            if x is not None and name not in translation.likes
        ]
        if (
            translation.folds
            and tensors
            and all(isinstance(x, KnownTensor) and not self.initializers.is_state(x) for x in tensors)
        ):
            apply = functools.partial(self.apply, translation, node, attributes=attributes, scope=scope)
            folded = folding.fold(node.op_type, operands, attributes, apply, self.budget)
            if folded is not None:
                return folded
        return self.apply(translation, node, operands, self.builder, attributes=attributes, scope=scope)

    def apply(
        self,
        translation: Translation,
        node: NodeProto,
        operands: list[Any],
        builder: Builder,
        *,
        attributes: dict[str, Any],
        scope: Scope,
    ) -> Items[Any]:
        """Call the function of an entry with operands of the kinds that it expects."""
        tensor = functools.partial(self.initializers.tensor, builder)
        context = Context(
            builder=builder,
            opset=scope.opsets["" if node.domain in STANDARD else node.domain],
            outputs=tuple(node.output),
            metadata={entry.key: entry.value for entry in node.metadata_props},
            folder=self.folder,
            declared=lambda: tuple(self.types().get(name) if not scope.call else None for name in node.output),
            tensor=tensor,
            run=functools.partial(self.import_subgraph, scope),
            draft=functools.partial(self.draft_subprogram, scope),
            choice=self.choices.answer,
        )
        names = translation.operand_names(len(operands))
        inputs = [
            x if x is None or name in translation.values
            else self.initializers.tensor(builder, x, state=name in translation.buffers)
            if isinstance(x, KnownTensor | SymbolicTensor)
            else x
            for name, x in zip(names, operands, strict=True)
        ]  # fmt: skip
        for name, x in zip(names, inputs, strict=True):
            if isinstance(x, Sequence | Pieces | Optional) and name not in translation.values:
                raise Unsupported("a sequence or an optional as an operand that must be a tensor")
        required = len([n for n in translation.operands if n not in translation.attributes]) - translation.variadic
        if len(inputs) < required or (not translation.variadic and any(x is None for x in inputs[:required])):
            raise ConversionError(f"needed the operands {', '.join(translation.operands[:required])}")
        last = translation.operands[-1] if translation.variadic else ""
        if last and last not in translation.values and None in inputs[len(translation.operands) - 1 :]:
            raise ConversionError(f"an operand is missing in {last}")
        result = translation.function(context, *inputs, **attributes)
        results = result if isinstance(result, tuple) else (result,)
        return tuple(known_tensor(x) if isinstance(x, np.ndarray) else x for x in results)

    def attributes(self, translation: Translation, node: NodeProto, scope: Scope, where: str) -> dict[str, Any]:
        """The attributes of a node by name; lists that later opsets take as operands become known tensors."""
        result: dict[str, Any] = {}
        for proto in node.attribute:
            resolved = protos.resolve_reference(proto, scope.call_attributes)
            if resolved is None:
                continue
            value = protos.attribute(resolved, where)
            if proto.name not in translation.attributes and not translation.open:
                raise Unsupported(f"attribute {proto.name!r}")
            if proto.name in translation.values:
                numbers = value if isinstance(value, list) else [value]
                if not all(isinstance(x, int | float) for x in numbers):
                    kind = AttributeProto.AttributeType.Name(resolved.type).lower()
                    raise ConversionError(f"{where}: attribute {proto.name!r} must be numbers, given {kind}")
                dtype = np.float32 if any(isinstance(x, float) for x in numbers) else np.int64
                array = np.array(value, dtype)
                value = KnownTensor(array, array.dtype)
            result[proto.name] = value
        if missing := sorted(translation.required - result.keys()):
            raise ConversionError(f"{where}: needed the attribute {missing[0]!r}")
        return result

    def inline_function(
        self, function: FunctionProto, node: NodeProto, operands: list[Any], scope: Scope, where: str
    ) -> Items[Any]:
        """Inline a function."""
        if scope.depth >= MAX_DEPTH:
            raise ConversionError(f"{where}: functions call each other more than {MAX_DEPTH} deep")
        if len(operands) > len(function.input):
            raise ConversionError(f"{where}: given {len(operands)} operands, the function takes {len(function.input)}")
        values = ChainMap(dict.fromkeys(function.input))
        values.update(zip(function.input, operands, strict=False))
        attributes = {proto.name: proto for proto in function.attribute_proto}
        for proto in node.attribute:
            if proto.ref_attr_name:
                if scope.call_attributes is None or proto.ref_attr_name not in scope.call_attributes:
                    continue
                attributes[proto.name] = scope.call_attributes[proto.ref_attr_name]
            else:
                attributes[proto.name] = proto
        opsets = {**scope.opsets, **read_opsets(function.opset_import)}
        inner = Scope(values, opsets, attributes, scope.depth + 1, node.name or node.op_type)
        self.import_nodes(function.node, inner)
        names = zip(function.output, node.output, strict=False)
        return [self.lookup(inner, name, where) if output else None for name, output in names]

    def import_subgraph(self, scope: Scope, graph: GraphProto, operands: tuple[Imported, ...]) -> tuple[Imported, ...]:
        """Inline a sub-graph on operands, in the scope of the node that contains it."""
        if scope.depth >= MAX_DEPTH:
            raise ConversionError(f"sub-graphs are nested more than {MAX_DEPTH} deep")
        if len(operands) != len(graph.input):
            raise ConversionError(f"a sub-graph takes {len(graph.input)} values, given {len(operands)}")
        protos.require_text(*(i.name for i in graph.input))
        values = scope.values.new_child(dict(zip((i.name for i in graph.input), operands, strict=True)))
        return self.import_graph(graph, Scope(values, scope.opsets, scope.call_attributes, scope.depth + 1, scope.call))

    def draft_subprogram(
        self, scope: Scope, graph: GraphProto, operands: tuple[Type | Imported, ...], name: str
    ) -> Draft:
        """Import a sub-graph as a sub-program; operands that are types become its inputs, the others are values."""
        if scope.depth >= MAX_DEPTH:
            raise ConversionError(f"sub-graphs are nested more than {MAX_DEPTH} deep")
        inner = copy.copy(self)
        inner.builder, inner.is_subprogram = Builder(), True
        self.initializers.enter(inner.builder, self.builder)
        inputs = [inner.builder.new_value("input", x) for x in operands if isinstance(x, Type)]
        remaining = iter(inputs)
        values = [next(remaining) if isinstance(x, Type) else x for x in operands]
        outputs = inner.import_subgraph(scope, graph, tuple(values))
        return Draft(name, self.initializers, inner.builder, self.builder, inputs, outputs)

    def finish(self) -> None:
        """Raise `UnsupportedOperators` with all operators that couldn't be imported, if there are any."""
        require_supported(self.missing, "the model can't be imported: {} of operators without a translation")


def _kind_of(value: Any) -> str:
    """The kind of a value, as `require_complete` takes it."""
    if isinstance(value, KnownTensor | SymbolicTensor):
        return str(value.dtype)
    others = {Sequence: "seq", Optional: "optional", type(None): ""}
    return others.get(type(value), "tensor")


def _describe(value: Any) -> str:
    """The description of an operand in an error message."""
    if isinstance(value, KnownTensor | SymbolicTensor):
        return str(Type(value.dtype, tuple(value.shape)))
    return "nothing" if value is None else "a sequence" if isinstance(value, Sequence | Pieces) else "an optional"


def _type_of(value: Any) -> onnx.TypeProto | None:
    """The type of an imported value as an ONNX proto; None for an absent one."""
    if not isinstance(value, KnownTensor | SymbolicTensor):
        return None
    shape = [d if isinstance(d, int) else str(d) for d in value.shape]
    return onnx.helper.make_tensor_type_proto(onnx.helper.np_dtype_to_tensor_dtype(value.dtype), shape)
