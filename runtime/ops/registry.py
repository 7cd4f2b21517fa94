"""`Op`, the declaration of an op, and the table of all ops.

An op is declared once, as a function whose signature and docstring are its public interface (positional parameters are
tensors, keyword-only ones are attributes), followed by its four rules:

    @operator
    def exp(x: Tensor) -> Tensor:
        "e to the power of x, elementwise; floating-point x. ONNX Exp-13."

    @exp.infer
    def _(x): return x
    @exp.kernel
    def _(x): return np.exp(x)
    @exp.vjp
    def _(g, y, x): return g * y
    @exp.onnx
    def _(graph, x): return graph.op("Exp", x)

- `infer(*types, **attributes)` returns the `Type` of the output (a tuple for several); it raises `ShapeError`.
- `kernel(*arrays, **attributes)` computes in NumPy. It gets half-precision operands as float32; the result is rounded
  once.
- `vjp(g, y, *inputs, **attributes)` returns the cotangents of the inputs (None for none), written with ops. `g` is the
  cotangent of the output and `y` the output; both are tuples for an op with several outputs (with None for a missing
  cotangent). The result is the cotangent itself for one input, else a tuple. A cotangent that is costly to compute may
  be a function of no arguments, which is called only if that input is differentiated.
- `onnx(graph, *inputs, **attributes)` lowers the op to standard ONNX operators; see `OnnxGraph`.

If a rule can't exist, the declaration says why: `exp.no_vjp("reason")`, `exp.no_onnx("reason")`. Other facts about
the op are its `traits`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ..current_trace import current
from ..errors import ProgramError, ShapeError
from ..ir.dims import Dim, SymbolicDim
from ..ir.printer import attribute_text
from ..ir.program import Program
from ..ir.types import BFLOAT16, FLOAT16, FLOAT32, Attributes, Type, is_half
from ..memory import check_memory
from ..precision import with_dtype_override
from ..tensor_like import Tensor, TensorLike
from ..traits import Traits

Array = np.ndarray[Any, Any]
Rule = Callable[..., Any]

MAX_TEXT_LENGTH = 2000  # characters of an operand list or a reason in an error

_REGISTRY: dict[str, Op] = {}


class OnnxGraph(Protocol):
    """The graph that an op's `onnx` rule emits to. Values are ONNX names (strings; `""` for an absent one)."""

    opset: int

    def op(self, op_type: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """Add a node of the standard domain; return its output name, or a tuple of names if `outputs` is above 1."""

    def has(self, op_type: str, version: int) -> bool:
        """Whether the opset has an operator, given the first version that has it in the required form.

        If the opset isn't fixed and ONNX Runtime has a kernel for the operator, an opset with the operator is chosen.
        """

    def note(self, key: str, text: str) -> None:
        """Add metadata to the last node, for information that its operator has no attribute for."""

    def constant(self, data: Any, dtype: Any = None) -> str:
        """Return the name of a constant tensor."""

    def dims(self, dims: tuple[Dim, ...]) -> str:
        """Return the name of an int64 vector of these sizes; symbolic ones are computed at run time."""

    def read_sizes(self, tensor: str, symbols: tuple[str, ...]) -> None:
        """Bind these symbols to the elements of an integer tensor."""

    def depend_on_data(self, dims: tuple[Dim, ...]) -> bool:
        """Whether one of these sizes depends on a size that a node determines at run time."""

    def subgraph(self, program: Program, captured: Sequence[str], unused: Mapping[int, Type] | None = None) -> Any:
        """Lower a sub-program to a subgraph, the attribute of a node.

        Args:
            program: the sub-program.
            captured: tensors of this graph for its last inputs; the other inputs become inputs of the subgraph.
            unused: by position, types of further inputs that ONNX requires of the subgraph.
        """

    def body(self, name: str, inputs: Sequence[Type], outputs: Sequence[Type], write: Rule) -> Any:
        """Return the subgraph, an attribute of a node, that `write` emits; `write(graph, *inputs)` returns its outputs.

        Args:
            name: name of the subgraph.
            inputs: types of its inputs.
            outputs: types of its outputs.
            write: the rule, which gets the nested graph; it may use tensors of this graph.
        """

    def compose(self, composition: Rule, operands: Sequence[str]) -> tuple[str, ...]:
        """Lower a function that composes ops on symbolic tensors and returns a list of them."""

    def type(self, name: str) -> Type:
        """Return dtype and shape of an input of the op being lowered."""

    def cast(self, name: str, dtype: Any) -> str:
        """Return the value cast to a dtype."""

    def constant_value(self, name: str) -> Array | None:
        """Return the data of a tensor that is stored in the model; None for one that is computed or an input."""


class Op:
    """An op of the registry. A call with tensors (symbolic, eager, arrays) and attributes records or computes it."""

    def __init__(self, declaration: Callable[..., Any]) -> None:
        self.name = declaration.__name__
        self.__doc__ = declaration.__doc__
        self.signature = inspect.signature(declaration)
        parameters = self.signature.parameters.values()
        tensors = [p for p in parameters if p.kind is not p.KEYWORD_ONLY]
        self.variadic = any(p.kind is p.VAR_POSITIONAL for p in tensors)
        self.required_inputs = sum(p.default is p.empty and p.kind is not p.VAR_POSITIONAL for p in tensors)
        self.input_names = [p.name for p in tensors]
        self.attribute_defaults = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
        self.infer_rule: Rule | None = None
        self.kernel_rule: Rule | None = None
        self.vjp_rule: Rule | None = None
        self.onnx_rule: Rule | None = None
        self.no_vjp_reason: str | None = None
        self.no_onnx_reason: str | None = None
        self.half_native = False
        self.base_op: Op | None = None
        self.traits = Traits()

    def infer(self, rule: Rule) -> Rule:
        """Set the rule for dtypes and shapes."""
        return self._set("infer", rule)

    def kernel(self, rule: Rule) -> Rule:
        """Set the NumPy kernel; half-precision operands are cast to float32 and the result is rounded once."""
        return self._set("kernel", rule)

    def native_kernel(self, rule: Rule) -> Rule:
        """Set a kernel that only moves data (reshape, gather), so that half-precision operands needn't be cast."""
        self.half_native = True
        return self._set("kernel", rule)

    def vjp(self, rule: Rule) -> Rule:
        """Set the gradient rule."""
        return self._set("vjp", rule)

    def onnx(self, rule: Rule) -> Rule:
        """Set the ONNX rule."""
        return self._set("onnx", rule)

    def no_vjp(self, reason: str) -> None:
        """Declare that the op has no gradient, and why."""
        self.no_vjp_reason = reason

    def no_onnx(self, reason: str) -> None:
        """Declare that the op can't be expressed by standard ONNX operators, and why."""
        self.no_onnx_reason = reason

    def extends(self, op: Op) -> None:
        """Declare that the first outputs are those of `op` on the same operands; see `share_forward`."""
        self.base_op = op

    def _set(self, concern: str, rule: Rule) -> Rule:
        if getattr(self, f"{concern}_rule") is not None:
            raise ValueError(f"op {self.name!r} already has a rule for {concern}")
        setattr(self, f"{concern}_rule", rule)
        return rule

    def attributes(self, attributes: dict[str, Any]) -> dict[str, Any]:
        """Return `attributes` completed with defaults; `TypeError` names unknown or missing attributes."""
        if not attributes and not self.attribute_defaults:
            return attributes
        unknown = attributes.keys() - self.attribute_defaults.keys()
        complete = self.attribute_defaults | attributes
        missing = [name for name, value in complete.items() if value is inspect.Parameter.empty]
        if unknown or missing:
            raise TypeError(
                f"op {self.name}{self.signature}: "
                + (f"unknown attributes {sorted(unknown)}" if unknown else f"missing attributes {missing}")
            )
        return complete

    def infer_types(self, types: list[Type | None], attributes: dict[str, Any]) -> tuple[Type, ...]:
        """Return the types of the outputs; `ShapeError` names the op, its operands and the requirement.

        Raises:
            ShapeError: the operands don't fit, or memory can't hold an output.
        """
        assert self.infer_rule is not None, f"op {self.name} has no infer rule"
        try:
            inferred = self.infer_rule(*types, **attributes)
            outputs = inferred if isinstance(inferred, tuple) else (inferred,)
            for output in outputs:
                if (sizes := output.sizes) is not None:
                    check_memory(sizes, output.dtype)
        except ShapeError as error:
            operands = ", ".join(f"{n} {t}" for n, t in zip(self.operand_names(len(types)), types, strict=True))
            shown = ", ".join(f"{k}={attribute_text(v)}" for k, v in attributes.items())
            call = f"{self.name}({operands}{'; ' + shown if shown else ''})"
            raise ShapeError(f"{_shorten(call)}: {_shorten(str(error))}") from None
        return outputs

    def operand_names(self, count: int) -> list[str]:
        """Return the names of the operands of a node that has this many."""
        names = self.input_names
        return names[:count] if not self.variadic else [f"{names[-1]}[{i}]" for i in range(count)]

    def __reduce__(self) -> Any:  # ops are unique by name
        return get, (self.name,)

    def __call__(self, *inputs: Any, **attributes: Any) -> Any:
        """Delegate to the first operand that isn't an array; on arrays, compute immediately."""
        if not self.variadic and not self.required_inputs <= len(inputs) <= len(self.input_names):
            raise TypeError(f"op {self.name}{self.signature} takes other numbers of operands, given {len(inputs)}")
        if not self.variadic:  # rules get all operands, None for an absent one
            inputs += (None,) * (len(self.input_names) - len(inputs))
        complete = with_dtype_override(self.attributes(attributes))
        for operand in inputs:
            if isinstance(operand, TensorLike):
                return operand.apply(self, inputs, complete)
        trace = current()
        if trace is not None and trace.should_record(self, inputs, complete):
            return trace.apply(self, inputs, complete)
        outputs = evaluate(self, _as_arrays(inputs), complete)
        return outputs[0] if len(outputs) == 1 else outputs

    def apply_vjp(
        self,
        output_cotangents: Sequence[Any],
        outputs: Sequence[Any],
        inputs: Sequence[Any],
        attributes: Mapping[str, Any],
        mask: Sequence[bool] | None = None,
    ) -> tuple[Any, ...]:
        """Return the cotangents of the inputs by the `vjp` rule, from those of the outputs; None if not in `mask`.

        `mask` says for each input whether its cotangent is needed; by default, all are.

        Raises:
            ProgramError: the op has no gradient; the message says why.
        """
        if self.vjp_rule is None:
            raise ProgramError(f"op {self.name} has no gradient: {self.no_vjp_reason}")
        single = len(outputs) == 1
        result = self.vjp_rule(
            output_cotangents[0] if single else tuple(output_cotangents),
            outputs[0] if single else tuple(outputs),
            *inputs,
            **attributes,
        )
        cotangents = result if isinstance(result, tuple) else (result,)
        needed = [True] * len(cotangents) if mask is None else mask
        return tuple(
            None if not need else g() if callable(g) else g for g, need in zip(cotangents, needed, strict=True)
        )

    def __repr__(self) -> str:
        return f"<op {self.name}{self.signature}>"


def operator(declaration: Callable[..., Any]) -> Op:
    """Register the op that `declaration` declares; `ValueError` if the name is taken."""
    if declaration.__name__ in _REGISTRY:
        raise ValueError(f"an op named {declaration.__name__!r} is already registered")
    op = Op(declaration)
    _REGISTRY[op.name] = op
    return op


def get(name: str) -> Op:
    """Return the op of that name; `ProgramError` if there is none."""
    if name not in _REGISTRY:
        raise ProgramError(f"there is no op named {name!r}")
    return _REGISTRY[name]


def all_ops() -> dict[str, Op]:
    """Return all registered ops by name."""
    return dict(_REGISTRY)


def ops_with(fact: Callable[[Traits], object]) -> frozenset[str]:
    """Return the names of the ops of whose traits `fact` holds."""
    return frozenset(name for name, op in _REGISTRY.items() if fact(op.traits))


def family(name: str) -> tuple[str, ...]:
    """Return the names of the ops of a family, in the order of their declarations; none for ""."""
    return tuple(op.name for op in _REGISTRY.values() if name and op.traits.family == name)


def _shorten(text: str) -> str:
    """Return `text`, without its middle if it is too long to read: attributes may hold a million numbers."""
    return (
        text
        if len(text) <= MAX_TEXT_LENGTH
        else f"{text[: MAX_TEXT_LENGTH // 2]} [...] {text[-MAX_TEXT_LENGTH // 2 :]}"
    )


def require(condition: bool, message: str) -> None:
    """Raise `ShapeError(message)` unless `condition` holds."""
    if not condition:
        raise ShapeError(message)


def evaluate(
    op: Op, inputs: list[Array | None], attributes: Attributes, types: tuple[Type, ...] | None = None
) -> tuple[Array, ...]:
    """Run the kernel of `op` on arrays.

    Args:
        op: the op.
        inputs: operands; None for an absent optional one.
        attributes: all attributes, with concrete sizes.
        types: types of the outputs if known; inferred otherwise.

    Returns:
        The outputs, with the dtypes and shapes that `infer` returns.

    Raises:
        ShapeError: the operands don't fit.
        ProgramError: the kernel's result contradicts `infer` (a bug in cellbridge).
    """
    if types is None:
        types = op.infer_types([None if x is None else Type(x.dtype, x.shape) for x in inputs], dict(attributes))
    assert op.kernel_rule is not None, f"op {op.name} has no kernel"
    if not op.half_native:
        for x in inputs:
            if x is not None and x.itemsize == 2 and is_half(x.dtype):
                inputs = [x.astype(np.float32) if x is not None and is_half(x.dtype) else x for x in inputs]
                break
    result = op.kernel_rule(*inputs, **attributes)
    if type(result) is np.ndarray and len(types) == 1:  # mostly: without the loop, which takes as long as small kernels
        expected = types[0]
        if result.dtype is expected.dtype and result.shape == expected.shape:
            return (result,)
    outputs = []
    for array, expected in zip(result if isinstance(result, tuple) else (result,), types, strict=True):
        array = np.asarray(array)
        dtype, shape = expected.dtype, expected.shape
        if array.dtype is not dtype and array.dtype != dtype and is_half(dtype) and array.dtype == FLOAT32:
            array = array.astype(dtype)
        same = (array.dtype is dtype or array.dtype == dtype) and (
            array.shape == shape or _shape_matches(array.shape, shape)
        )
        if not same:
            raise ProgramError(
                f"kernel of op {op.name} returned {Type(array.dtype, array.shape)}, its infer rule says {expected}: "
                "a fault in cellbridge, please report it"
            )
        outputs.append(array)
    return tuple(outputs)


def _shape_matches(actual: tuple[int, ...], expected: tuple[Dim, ...]) -> bool:
    return len(actual) == len(expected) and all(
        isinstance(e, SymbolicDim) or a == e for a, e in zip(actual, expected, strict=True)
    )


def _as_arrays(inputs: tuple[Any, ...]) -> list[Array | None]:
    """Return operands as arrays; Python numbers get the dtype of the first array."""
    dtype = next((x.dtype for x in inputs if isinstance(x, (np.ndarray, np.generic))), None)
    return [
        x if x is None or isinstance(x, np.ndarray) else np.asarray(x) if hasattr(x, "dtype") else np.asarray(x, dtype)
        for x in inputs
    ]


__all__ = [
    "BFLOAT16", "FLOAT16", "FLOAT32", "Array", "OnnxGraph", "Op", "Tensor", "Type", "all_ops", "evaluate", "family",
    "get", "operator", "ops_with", "require",
]  # fmt: skip
