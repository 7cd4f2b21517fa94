"""`from_torch`: a torch module becomes a program."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree

from ...runtime import tree
from ...runtime.calling import as_array
from ...runtime.errors import ConversionError, UsageError
from ...runtime.ir.dims import Dim
from ...runtime.ir.program import Program
from ...runtime.ir.types import Buffer, Constant, Parameter, Type
from ...runtime.ir.verify import verify
from ...runtime.ops.complex_numbers import Complex
from ...runtime.tracing import Builder, Traced
from . import tables  # noqa: F401  (fills the table)
from .attributes import changes_told
from .cell_hooks import watch
from .complex_table import COMPLEX, is_complex
from .containers import open_containers
from .dims import as_dim, symbol_names, with_dims
from .known_numbers import KnownNumbers, UnseenDraws, known_settings, least_draws
from .marks import Marker
from .refusals import explained, raise_if_eager_fails
from .table import TABLE, Unsupported, cast, numpy_dtype
from .translate import Translator

DETACH = torch.ops.aten.detach.default
# operators that torch knows how to take apart, but counts among those that stay whole
TAKEN_APART = [torch.ops.aten.grid_sampler_2d.default, torch.ops.aten.dist.default, torch.ops.aten.ldexp.Tensor]

INSTANCE_NORM = torch.ops.aten.instance_norm.default


def from_torch(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    train: bool = False,
) -> Program:
    """Capture a module as a program.

    Args:
        module: any module that `torch.export` takes; it is left as it was.
        args: positional example inputs; their tensors' dtypes and shapes become those of the program, except that a
            complex tensor of shape S, input or output, parameter or buffer, is one of reals of shape (*S, 2) there, as
            `torch.view_as_real` gives it. A call of the program takes complex arrays and tensors too.
        kwargs: keyword example inputs.
        dynamic_shapes: which dimensions may vary, as `torch.export.export` takes it; a name does for a `Dim`.
        train: capture train mode (batch statistics, dropout) instead of eval mode.

    Returns:
        The program, with a copy of the module's parameters and buffers.

    Raises:
        UsageError: the inputs don't fit the module.
        UnsupportedOperators: operators without a translation; all are listed with Cell path and source line.
        ConversionError: `torch.export` refuses the module; the message says what, where and what to do.

    Warns:
        UserWarning: the module changes one of its inputs in place, which the program leaves as they are.
    """
    if not isinstance(module, torch.nn.Module):
        raise UsageError(f"needed a torch.nn.Module, given {type(module).__name__}")
    if not isinstance(args, tuple):
        raise UsageError(f"args must be a tuple of the positional inputs, given {type(args).__name__}")
    keywords = dict(kwargs or {})
    dynamic_shapes = with_dims(dynamic_shapes)
    open_containers((args, keywords))
    modes = {m: m.training for m in module.modules()}
    marker = Marker()
    module.train(train)
    try:
        with changes_told(module):
            exported = _export(module, args, keywords, dynamic_shapes, marker)
    finally:
        for m, mode in modes.items():
            m.training = mode
    try:
        return _program(module, args, keywords, dynamic_shapes, train, marker, exported)
    except ConversionError:
        raise_if_eager_fails(module, args, keywords)  # on operands of different dtypes, say: torch.export doesn't mind
        raise


def _export(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any, marker: Marker
) -> torch.export.ExportedProgram:
    draws = UnseenDraws()
    exported = _trace(module, args, kwargs, dynamic_shapes, marker)
    if draws.sources():
        with least_draws():
            again = _trace(module, args, kwargs, dynamic_shapes, marker)
        if not _are_the_same(exported, again):
            draws.refuse()
    return exported


def _are_the_same(a: torch.export.ExportedProgram, b: torch.export.ExportedProgram) -> bool:
    """Whether two traces of one module compute the same."""
    if str(a.graph) != str(b.graph):
        return False
    pairs = [(x, b.constants[name]) for name, x in a.constants.items()]
    return all(torch.equal(x, y) for x, y in pairs if isinstance(x, torch.Tensor))


def _trace(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any, marker: Marker
) -> torch.export.ExportedProgram:
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        stack.enter_context(explained(module, args, kwargs))
        stack.enter_context(watch(module, marker))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(_masks_unread())
        stack.enter_context(_distributions_unchecked())
        stack.enter_context(KnownNumbers())
        stack.enter_context(known_settings(module))
        warnings.simplefilter("ignore")
        exported = torch.export.export(_called(module), args, kwargs, dynamic_shapes=dynamic_shapes, strict=False)
        _detach_no_grad_regions(exported.graph_module)
        table = _decompositions()
        default = torch.export.default_decompositions()
        if any(map(_updates_statistics_unseen, exported.graph.nodes)):
            table = table | {INSTANCE_NORM: default[INSTANCE_NORM]}
        # what has a translation for real tensors only is taken apart where it is applied to complex ones
        table = table | {op: default[op] for op in _on_complex(exported.graph_module) if op in default}
        # makes in-place operators functional, too
        taken_apart: torch.export.ExportedProgram = exported.run_decompositions(table)
        return taken_apart


def _called(module: torch.nn.Module) -> torch.nn.Module:
    """A module that is called, hooks and all, when it is exported: a graph module's own nodes would be run instead."""
    if not isinstance(module, torch.fx.GraphModule):
        return module
    caller = torch.nn.Module()
    for held in ("_parameters", "_buffers", "_non_persistent_buffers_set", "_modules", "training"):
        vars(caller)[held] = vars(module)[held]
    caller.forward = functools.wraps(module.forward)(lambda *args, **kwargs: module(*args, **kwargs))
    return caller


@contextlib.contextmanager
def _masks_unread() -> Iterator[None]:
    """Within the context, torch's transformer layers don't look into a mask to see whether it is the causal one.

    That decides by the values of a tensor, which can't be exported, and only what is faster: not causal, as far as they
    know, a mask is applied as it is.
    """
    layers = torch.nn.modules.transformer
    detect = layers._detect_is_causal_mask
    layers._detect_is_causal_mask = lambda mask, is_causal=None, size=None: is_causal is True
    try:
        yield
    finally:
        layers._detect_is_causal_mask = detect


@contextlib.contextmanager
def _distributions_unchecked() -> Iterator[None]:
    """Within the context, distributions don't look into their parameters, to raise an error for a negative scale, say.

    That decides by the values of a tensor, which can't be exported.
    """
    before = torch.distributions.Distribution._validate_args
    torch.distributions.Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        torch.distributions.Distribution.set_default_validate_args(before)


def _updates_statistics_unseen(node: torch.fx.Node) -> bool:
    """Whether it is an instance norm that updates running statistics: its schema doesn't say that it changes them.

    Taken apart, it shows.
    """
    if node.target is not INSTANCE_NORM:
        return False
    names = [argument.name for argument in INSTANCE_NORM._schema.arguments]
    given = dict(zip(names, node.args, strict=False)) | node.kwargs
    return bool(given["use_input_stats"]) and given["running_mean"] is not None


def _detach_no_grad_regions(module: torch.fx.GraphModule) -> None:
    """Detach what is computed under `torch.no_grad()`: `run_decompositions` forgets where such a region was."""
    for node in module.graph.nodes:
        if node.target is not torch.ops.higher_order.wrap_with_set_grad_enabled or node.args[0]:
            continue
        region = getattr(module, node.args[1].target)
        (output,) = region.graph.find_nodes(op="output")
        with region.graph.inserting_before(output):
            output.args = (tuple(region.graph.call_function(DETACH, (value,)) for value in output.args[0]),)
        region.recompile()


def _on_complex(module: torch.nn.Module) -> set[Any]:
    """The operators that are applied to complex tensors, but lack a translation for those."""
    graphs = [m.graph for m in module.modules() if isinstance(m, torch.fx.GraphModule)]
    return {
        node.target
        for graph in graphs
        for node in graph.nodes
        if node.op == "call_function" and str(node.target) in TABLE and str(node.target) not in COMPLEX
        if any(is_complex(n.meta.get("val")) for n in (node, *node.all_input_nodes))
    }


@functools.cache
def _decompositions() -> dict[Any, Any]:
    """How torch takes apart the operators that the table lacks; those it has stay whole.

    Random operators stay whole too: their draws are recorded and replayed one for one.
    """
    default = torch.export.default_decompositions().items()  # type: ignore[no-untyped-call]
    rules = dict(default) | torch._decomp.get_decompositions(TAKEN_APART)
    return {
        operator: rule
        for operator, rule in rules.items()
        if str(operator) not in TABLE and torch.Tag.nondeterministic_seeded not in operator.tags
    }


def _program(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic_shapes: Any,
    train: bool,
    marker: Marker,
    exported: torch.export.ExportedProgram,
) -> Program:
    graph = exported.graph_module
    fakes = {n.name: n.meta.get("val") for n in graph.graph.nodes if n.op == "placeholder"}
    specs = exported.graph_signature.input_specs
    user_fakes = [
        fakes[s.arg.name]
        for s in specs
        if s.kind is InputKind.USER_INPUT and isinstance(fakes.get(s.arg.name), torch.Tensor)
    ]
    names = symbol_names(module, args, kwargs, dynamic_shapes, user_fakes)
    builder = Builder()
    translator = Translator(builder, marker, names)
    states = _State(module, builder)
    inputs: list[Traced] = []
    arguments: list[Any] = []
    for spec in specs:
        fake = fakes.get(spec.arg.name)
        if spec.kind is InputKind.USER_INPUT:
            if isinstance(fake, torch.Tensor):
                shape = tuple(as_dim(size, names) for size in fake.shape)
                inputs.append(builder.new_value(spec.arg.name, _type(fake, spec.arg.name, shape)))
                arguments.append(_numbers(inputs[-1], fake))
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
    for spec, value in zip(exported.graph_signature.output_specs, outputs, strict=True):
        if spec.kind is OutputKind.USER_OUTPUT:
            results.append(value)
        elif spec.kind is OutputKind.BUFFER_MUTATION:
            states.update(spec.target, value)
        elif spec.kind is OutputKind.USER_INPUT_MUTATION:
            message = f"the module changes its input {spec.target!r} in place; the program leaves it as it is"
            warnings.warn(message, UserWarning, stacklevel=3)
        elif spec.kind is not OutputKind.TOKEN:  # of an operator with a side effect
            raise ConversionError(
                f"the model changes {spec.target!r}, a parameter, in place\n"
                "  what to do: return the changed tensor instead; "
                "where only the first call changes it, call the model once before it is converted"
            )
    out_spec = exported.call_spec.out_spec
    assert out_spec is not None
    results = [x.pair() if isinstance(x, Complex) else x for x in results]
    stand_ins = [torch.empty(0) if isinstance(x, Traced) else x for x in results]
    program = Program(
        inputs=tuple(x.value for x in inputs),
        outputs=tuple(x.value for x in results if isinstance(x, Traced)),
        nodes=tuple(builder.nodes),
        parameters=states.parameters,
        buffers=states.buffers,
        constants=tuple(builder.constants),
        calls=tuple(marker.calls),
        arguments=_structure((args, kwargs)),
        result=_structure(pytree.tree_unflatten(stand_ins, out_spec)),
        train=train,
    )
    verify(program)
    return program


class _State:
    """Parameters, buffers and constants of a module as values of a program; a shared tensor is one value."""

    def __init__(self, module: torch.nn.Module, builder: Builder) -> None:
        self.builder = builder
        self.parameters: dict[str, Parameter] = {}
        self.buffers: dict[str, Buffer] = {}
        self.canonical: dict[int, str] = {}
        self.module_buffers = dict(module.named_buffers(remove_duplicate=False))
        self.all_parameters = dict(module.named_parameters(remove_duplicate=False))
        for name, parameter in module.named_parameters():
            self.canonical[id(parameter)] = name
            aliases = tuple(n for n, p in self.all_parameters.items() if p is parameter and n != name)
            value = self._value(name, parameter).value
            self.parameters[name] = Parameter(value, as_array(parameter).copy(), parameter.requires_grad, aliases)
        for name, buffer in module.named_buffers():
            self.canonical[id(buffer)] = name
            traced = self._value(name, buffer)
            self.buffers[name] = Buffer(traced.value, as_array(buffer).copy())

    def _value(self, name: str, tensor: torch.Tensor) -> Traced:
        return self.builder.new_value(name, _type(tensor, name, tuple(tensor.shape)))

    def parameter(self, target: str) -> Traced | Complex:
        tensor = self.all_parameters[target]
        return _numbers(Traced(self.builder, self.parameters[self.canonical[id(tensor)]].value), tensor)

    def buffer(self, target: str) -> Traced | Complex:
        buffer = self.buffers[self._buffer_name(target)]
        return _numbers(Traced(self.builder, buffer.value), self.module_buffers[target])

    def _buffer_name(self, target: str) -> str:
        return self.canonical[id(self.module_buffers[target])]

    def constant(self, target: str, data: Any) -> Traced | Complex:
        """A tensor that the model made or held outside of its parameters and buffers."""
        traced = self._value(target, data)
        self.builder.constants.append(Constant(traced.value, as_array(data).copy()))
        return _numbers(traced, data)

    def update(self, target: str, value: Any) -> None:
        if isinstance(value, Complex):
            value = value.pair()
        name = self._buffer_name(target)
        before = self.buffers[name]
        # torch infers wider running statistics for half precision than the buffer that it copies them to
        self.buffers[name] = Buffer(before.value, before.data, cast(value, before.value.dtype).value)


def _type(tensor: torch.Tensor, name: str, shape: tuple[Dim, ...]) -> Type:
    """The type of the value that stands for a tensor: complex numbers are pairs of reals."""
    try:
        dtype = numpy_dtype(tensor.dtype)
    except Unsupported as reason:
        raise ConversionError(f"tensor {name!r}: {reason} can't be converted") from None
    return Type(dtype, (*shape, 2) if tensor.is_complex() else shape)


def _numbers(traced: Traced, tensor: torch.Tensor) -> Traced | Complex:
    """What a value that stands for a tensor is to translations."""
    return Complex.of_pair(traced) if tensor.is_complex() else traced


def _structure(tree_: Any) -> tree.Structure:
    """The structure of a call's arguments or result, as torch flattens it.

    Containers that only torch knows (a dataclass, say) become dicts; their fields are those that torch takes leaves of.
    """
    if isinstance(tree_, torch.Tensor):
        return tree.TENSOR
    entries, spec = pytree.tree_flatten_with_path(tree_, is_leaf=lambda x: x is not tree_)
    if spec.is_leaf():
        return tree.Structure("constant", constant=tree_)
    children = tuple(_structure(child) for _, child in entries)
    if isinstance(tree_, tuple):
        # a named tuple has `_fields`, one of torch's own (of max, say) `__match_args__`
        fields = tuple(getattr(tree_, "_fields", None) or getattr(tree_, "__match_args__", None) or ())
        if not fields:
            return tree.Structure("tuple", children)
        return tree.Structure("namedtuple", children, fields, type(tree_).__name__)
    if isinstance(tree_, list):
        return tree.Structure("list", children)
    keys = tuple(_key(path[0]) for path, _ in entries)
    return tree.Structure("dict", children, keys, "" if isinstance(tree_, Mapping) else type(tree_).__name__)


def _key(entry: Any) -> Any:
    """The key, the attribute or the position that a pytree path entry stands for."""
    match entry:
        case pytree.MappingKey(key=key) | pytree.GetAttrKey(name=key) | pytree.SequenceKey(idx=key):
            return key
    return str(entry)
