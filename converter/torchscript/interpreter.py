"""Runs the graph of a TorchScript module in Python, so that torch.export sees each operator.

torch's own converter from TorchScript, `torch._export.converter`, refuses loops, and makes the weights of recurrent
layers constants. Values are Python's: tensors, numbers, lists, dicts and tuples. Numbers that a trace keeps as tensors
(`prim::NumToTensor`) stay numbers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch

from ...runtime.errors import ConversionError
from .functions import ENUMS, FUNCTIONS, PRIMITIVES

_SCHEMA = re.compile(r"(\w+)::(\w+)(?:\.(\w+))?\(")


def run(graph: Any, arguments: Sequence[Any]) -> Any:
    """The result of an inlined graph on its arguments, of which the first is the module.

    Raises:
        ConversionError: it has an operation that is neither an operator of torch nor known from Python.
    """
    values: dict[str, Any] = {}
    results = _block(graph, arguments, values)
    return results[0] if len(results) == 1 else tuple(results)


def _block(block: Any, arguments: Sequence[Any], values: dict[str, Any]) -> list[Any]:
    """Run the nodes of a block, which may use values of the blocks around it."""
    for value, argument in zip(block.inputs(), arguments, strict=True):
        values[value.debugName()] = argument
    for node in block.nodes():
        results = _node(node, [values[value.debugName()] for value in node.inputs()], values)
        for value, result in zip(node.outputs(), results, strict=True):
            values[value.debugName()] = result
    return [values[value.debugName()] for value in block.outputs()]


def _node(node: Any, inputs: list[Any], values: dict[str, Any]) -> Sequence[Any]:
    kind = node.kind()
    match kind:
        case "prim::Constant":
            return (node.output().toIValue(),)
        case "prim::GetAttr":
            owner: Any = inputs[0]
            name = node.s("name")
            # a frozen module has parts that are torch's own objects
            return ((getattr(owner, "attribute", None) or owner.getattr)(name),)
        case "prim::SetAttr":
            setattr(inputs[0], node.s("name"), inputs[1])
            return ()
        case "prim::If":
            chosen, other = node.blocks()
            return _block(chosen if inputs[0] else other, (), values)
        case "prim::Loop":
            return _loop(node, inputs, values)
        case "prim::DictConstruct":
            return (dict(zip(inputs[::2], inputs[1::2], strict=True)),)
        case "prim::TupleUnpack" | "prim::ListUnpack":
            return tuple(inputs[0])
        case "prim::RaiseException":
            raise RuntimeError(str(inputs[0]))
    if kind in PRIMITIVES:
        result = PRIMITIVES[kind](*inputs)
        return (result,) if node.outputsSize() else ()
    if not any(map(_has_tensor, inputs)) and kind in FUNCTIONS:
        result = FUNCTIONS[kind](*inputs)
        return (result,) if node.outputsSize() else ()
    return _operator(node, kind, inputs)


def _loop(node: Any, inputs: list[Any], values: dict[str, Any]) -> list[Any]:
    trips, goes_on, *carried = inputs
    (body,) = node.blocks()
    trip = 0
    while goes_on and trip < trips:
        goes_on, *carried = _block(body, (trip, *carried), values)
        trip += 1
    return carried


def _operator(node: Any, kind: str, inputs: list[Any]) -> Sequence[Any]:
    match = None if kind.startswith("prim::") else _SCHEMA.match(node.schema())
    if match is None:
        raise ConversionError(
            f"TorchScript's {kind} can't be converted: {str(node).strip()}\n"
            "  what to do: pass the nn.Module that was scripted or traced"
        )
    namespace, name, overload = match.groups()
    operator = getattr(getattr(getattr(torch.ops, namespace), name), overload or "default")
    arguments, keywords = [], {}
    for argument, value in zip(operator._schema.arguments, inputs, strict=True):
        enum = ENUMS.get(str(argument.real_type).removeprefix("Optional[").removesuffix("]"))
        value = enum[value] if enum is not None and isinstance(value, int) else value
        if argument.kwarg_only:
            keywords[argument.name] = value
        else:
            arguments.append(value)
    result = operator(*arguments, **keywords)
    return tuple(result) if node.outputsSize() > 1 else (result,) if node.outputsSize() else ()


def _has_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor) or (isinstance(value, (list, tuple)) and any(map(_has_tensor, value)))
