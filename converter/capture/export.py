"""`from_torch`: a torch module becomes a program."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from os import PathLike
from typing import Any

import torch
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree

from ...runtime.errors import ConversionError, UsageError
from ...runtime.ir.program import Program
from ...runtime.ops.complex_numbers import Complex
from ...runtime.programs.verify import verify
from ...runtime.tracing import Builder, SymbolicTensor
from ..exclusive import one_at_a_time
from ..mapped_weights import MappedWeights, require_values, zeros_for_meta
from ..structure.depth import depth_of, raise_recursion_limit
from ..warning import warn
from . import tables  # noqa: F401  (fills the table)
from .attributes import warn_about_changes
from .checkpoints import keep_activations
from .containers import open_containers, structure
from .custom_backward import CustomFunctions, intercept_functions
from .dims import (
    as_dim,
    complete_shapes,
    double_unit_axes,
    gather_shapes,
    note_doubled_axes,
    parse_dims,
    require_axes,
    symbol_names,
)
from .export_errors import parameter_change_error, raise_if_eager_fails, require_harmless_keys, require_ready
from .marks import Marker
from .modes import in_mode
from .shapes_spec import is_spec, resolve_spec, tensors_with_sizes
from .state import State, as_numbers, tensor_type
from .torch_graph import export
from .translate import Translator
from .unregistered_state import refuse_state
from .wrappers import unwrap_arguments


@one_at_a_time
@unwrap_arguments
def from_torch(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    train: bool | None = False,
    differentiated: Collection[str] = (),
    copy: bool = True,
    checkpoint: str | PathLike[str] | None = None,
) -> Program:
    """Capture a module as a program.

    Args:
        module: any module that `torch.export` takes; it isn't changed.
        args: positional example inputs; their tensors' dtypes and shapes become those of the program, except that a
            complex tensor of shape S (input, output, parameter or buffer) becomes a real one of shape (*S, 2), as
            `torch.view_as_real` returns it. A call of the program also takes complex arrays and tensors.
        kwargs: keyword example inputs.
        dynamic_shapes: which dimensions may vary, as for `torch.export.export`; a name may replace a `Dim`. From torch
            2.14 on, also a `ShapesSpec` or `ParamsSpec` of sizes of tensors, passed here or by `@dynamic_spec`.
        train: capture train mode (batch statistics, dropout) instead of eval mode. If some submodules are in train mode
            and others in eval mode, each keeps its mode (for example a batch norm frozen on purpose). None: eval mode,
            in which parts keep their modes, too, where these differ.
        differentiated: names of `torch.autograd.Function`s (`Round`) whose backward the program replaces by the
            derivative of their forward.
        copy: give the program its own parameters. If False, it reads the memory of the module's, of which a large model
            then needs no second one; it can't write to it, and what changes the module changes the program too.
        checkpoint: for a module on the meta device, safetensors files (one, an index, or a folder) with its parameters:
            the program reads them from there whenever they are used, converted to the module's dtypes, so that a model
            larger than memory can be written to ONNX.

    Returns:
        The program. Its buffers are always copies of the module's.

    Raises:
        UsageError: the inputs don't fit the module, its parameters have no shape yet, or it returns no tensor.
        UnsupportedOperators: operators without a translation; all are listed with Cell path and source line.
        ConversionError: `torch.export` refuses the module, or tensors that a call keeps in attributes rather than
            buffers change the result of the next call; the message says what, where and what to do.

    Warns:
        ConversionWarning: the module changes one of its inputs in place, which the program doesn't; changes numbers
            among its attributes, which are constants in the program; checks values (`assert`, `if ...: raise`), which
            the program doesn't; or has backward hooks, or a `torch.autograd.Function` whose backward can't be captured
            (it changes an input in place, has complex tensors, or torch.export can't trace it). The program then has
            the derivative of its forward instead. Any other function keeps its own backward in the program.
    """
    if not isinstance(module, torch.nn.Module):
        raise UsageError(f"needed a torch.nn.Module, given {type(module).__name__}")
    raise_recursion_limit(depth_of(module))
    require_ready(module)
    if not isinstance(args, tuple):
        raise UsageError(f"args must be a tuple of the positional inputs, given {type(args).__name__}")
    keywords = dict(kwargs or {})
    dynamic_shapes = parse_dims(resolve_spec(module, dynamic_shapes))
    example = args, keywords
    if is_spec(dynamic_shapes):
        list(tensors_with_sizes(module, args, keywords, dynamic_shapes))  # raises where they don't fit
    else:
        dynamic_shapes = complete_shapes(module, args, keywords, dynamic_shapes)
        require_axes(module, args, keywords, dynamic_shapes)
        dynamic_shapes = gather_shapes(module, args, dynamic_shapes)
        args, keywords = double_unit_axes(module, args, keywords, dynamic_shapes)
    open_containers((args, keywords))
    require_harmless_keys(args, keywords)
    with note_doubled_axes(args is not example[0]):
        if checkpoint is None:
            require_values(module)
            return _capture(module, args, keywords, dynamic_shapes, train, differentiated, copy)
        weights = MappedWeights.of(checkpoint)
        arrays = weights.arrays(module)
        with zeros_for_meta(module):
            program = _capture(module, args, keywords, dynamic_shapes, train, differentiated, copy=False)
    for note in weights.notes:
        warn(note)
    return program.replace(
        parameters={n: replace(p, data=arrays.get(n, p.data)) for n, p in program.parameters.items()},
        buffers={n: replace(b, data=arrays.get(n, b.data)) for n, b in program.buffers.items()},
    )


def _capture(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    keywords: dict[str, Any],
    dynamic_shapes: Any,
    train: bool | None,
    differentiated: Collection[str],
    copy: bool,
) -> Program:
    marker = Marker()
    functions = CustomFunctions(differentiated)
    with in_mode(module, train):
        with warn_about_changes(module) as state_places, intercept_functions(functions.apply), keep_activations():
            exported = export(module, args, keywords, dynamic_shapes, marker)
        functions.warn(module)
        refuse_state(module, state_places, args, keywords)
    try:
        return _to_program(module, args, keywords, dynamic_shapes, train, marker, exported, copy)
    except ConversionError:
        raise_if_eager_fails(
            module, args, keywords
        )  # torch.export accepts some inputs that eager torch refuses, such as operands of different dtypes
        raise


def _to_program(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic_shapes: Any,
    train: bool | None,
    marker: Marker,
    exported: torch.export.ExportedProgram,
    copy: bool,
) -> Program:
    graph = exported.graph_module
    fakes = [node.meta.get("val") for node in graph.graph.find_nodes(op="placeholder")]
    specs = list(zip(exported.graph_signature.input_specs, fakes, strict=True))
    user_fakes = [fake for spec, fake in specs if spec.kind is InputKind.USER_INPUT and isinstance(fake, torch.Tensor)]
    names = symbol_names(module, args, kwargs, dynamic_shapes, user_fakes)
    builder = Builder()
    translator = Translator(builder, marker, names)
    states = State(module, builder, copy=copy)
    inputs: list[SymbolicTensor] = []
    arguments: list[Any] = []
    for spec, fake in specs:
        if spec.kind is InputKind.USER_INPUT:
            if isinstance(fake, torch.Tensor):
                shape = tuple(as_dim(size, names) for size in fake.shape)
                inputs.append(builder.new_value(spec.arg.name, tensor_type(fake, spec.arg.name, shape)))
                arguments.append(as_numbers(inputs[-1], fake))
            else:
                arguments.append(as_dim(fake, names) if isinstance(fake, torch.SymInt) else fake)
        elif spec.kind is InputKind.PARAMETER:
            arguments.append(states.parameter(spec.target))
        elif spec.kind is InputKind.BUFFER:
            arguments.append(states.buffer(spec.target))
        elif spec.kind is InputKind.CONSTANT_TENSOR:
            arguments.append(states.constant(spec.target, exported.constants[spec.target]))
        elif spec.kind is InputKind.TOKEN:  # of an operator with a side effect
            arguments.append(None)
        else:
            raise ConversionError(f"the model takes an input of a kind that can't be converted: {spec}")
    outputs = translator.run(graph, arguments)
    translator.finish()
    results: list[Any] = []
    output_nodes = graph.graph.output_node().args[0]
    for spec, value, node in zip(exported.graph_signature.output_specs, outputs, output_nodes, strict=True):
        if spec.kind is OutputKind.USER_OUTPUT:
            results.append(value)
        elif spec.kind is OutputKind.BUFFER_MUTATION:
            states.update(spec.target, value)
        elif spec.kind is OutputKind.USER_INPUT_MUTATION:
            message = f"the module changes its input {spec.target!r} in place; the program doesn't change it"
            warn(message)
        elif spec.kind is not OutputKind.TOKEN:  # of an operator with a side effect
            raise parameter_change_error(spec.target, node)
    out_spec = exported.call_spec.out_spec
    assert out_spec is not None
    results = [x.pair() if isinstance(x, Complex) else x for x in results]
    if not any(isinstance(x, SymbolicTensor) for x in results):
        raise UsageError(f"the model returns no tensor: {pytree.tree_unflatten(results, out_spec)!r}")
    stand_ins = [torch.empty(0) if isinstance(x, SymbolicTensor) else x for x in results]
    program = Program(
        inputs=tuple(x.value for x in inputs),
        outputs=tuple(x.value for x in results if isinstance(x, SymbolicTensor)),
        nodes=tuple(builder.nodes),
        parameters=states.parameters,
        buffers=states.buffers,
        constants=tuple(builder.constants),
        calls=tuple(marker.calls),
        arguments=structure((args, kwargs)),
        result=structure(pytree.tree_unflatten(stand_ins, out_spec)),
        train=bool(train),
    )
    verify(program)
    return program
