"""What must hold of a case of an op, one check a function; `test_all_ops` runs them on all cases."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
import torch

from cellbridge.converter.onnx_out.export import to_onnx
from cellbridge.runtime import ops
from cellbridge.runtime.compiled.session import SessionError, run_model
from cellbridge.runtime.errors import ShapeError
from cellbridge.runtime.ir import dims
from cellbridge.runtime.ir.dims import symbol
from cellbridge.runtime.ir.program import Program
from cellbridge.runtime.ir.types import CellCall, Type, as_dtype, is_floating
from cellbridge.runtime.ops.registry import Op, evaluate
from cellbridge.runtime.programs.gradient_program import differentiate
from cellbridge.runtime.programs.interpreter import execute
from cellbridge.runtime.tracing import Builder, SymbolicTensor
from cellbridge.runtime.tree import TENSOR, Structure
from tests.runtime.ops.cases import OpCase

Array = np.ndarray[Any, Any]

# Largest error, as a share of the value and of the largest value of its tensor.
RTOL = {"float64": (1e-10, 1e-12), "float32": (1e-5, 1e-6), "float16": (2e-3, 2e-3)}
# Operators that ONNX Runtime 1.31 lacks on the CPU in a dtype. Where it gains one, the test says so.
ORT_LACKS = {"float64": {"Conv", "ConvTranspose", "AveragePool", "GlobalAveragePool", "Resize"}}


def cast(array: Array | None, dtype: Any) -> Array | None:
    return array.astype(as_dtype(dtype)) if array is not None and is_floating(array.dtype) else array


def operands_of(case: OpCase) -> tuple[Array | None, ...]:
    """The operands, absent ones as None."""
    op = ops.get(case.op)
    absent = 0 if op.variadic else len(op.input_names) - len(case.inputs)
    return (*case.inputs, *(None,) * absent)


def inputs_of(case: OpCase, dtype: Any) -> list[Array | None]:
    return [cast(array, dtype) for array in operands_of(case)]


def differentiated(case: OpCase) -> list[bool]:
    """Which of the inputs get a gradient."""
    return [
        array is not None and is_floating(array.dtype) and i not in case.undifferentiated
        for i, array in enumerate(operands_of(case))
    ]


def attributes_of(case: OpCase, inputs: list[Array | None]) -> dict[str, Any]:
    """The attributes; sub-programs in the dtype of the floating-point inputs."""
    dtypes = [x.dtype for x in inputs if x is not None and is_floating(x.dtype)]
    given = {k: v.astype(dtypes[0]) if isinstance(v, Program) else v for k, v in case.attributes.items()}
    return ops.get(case.op).attributes(given)


def run_kernel(case: OpCase, inputs: list[Array | None]) -> tuple[Array, ...]:
    with np.errstate(all="ignore"):
        return evaluate(ops.get(case.op), inputs, attributes_of(case, inputs))


def as_torch(array: Array | None) -> torch.Tensor | None:
    return None if array is None else torch.from_numpy(np.array(array))


def run_torch(case: OpCase, tensors: list[torch.Tensor | None]) -> tuple[torch.Tensor, ...]:
    assert case.torch is not None
    result = case.torch(*tensors)
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def cotangents(outputs: tuple[Array, ...]) -> list[Array | None]:
    rng = np.random.default_rng(1)
    return [np.asarray(rng.standard_normal(y.shape)).astype(y.dtype) if is_floating(y.dtype) else None for y in outputs]


def run_vjp(case: OpCase, gs: list[Array | None], ys: tuple[Array, ...], inputs: list[Array | None]) -> list[Any]:
    """Cotangents of the inputs, computed at once."""
    with np.errstate(all="ignore"):
        return list(ops.get(case.op).apply_vjp(gs, ys, inputs, attributes_of(case, inputs)))


def one_node_program(case: OpCase, dtype: Any, symbolic: Collection[int] = ()) -> Program:
    """A program of this op; the first dimension of the inputs at the positions `symbolic` is the symbol `n`."""
    builder = Builder()
    op = ops.get(case.op)
    operands: list[SymbolicTensor | None] = []
    for i, array in enumerate(inputs_of(case, dtype)):
        shape = () if array is None else (symbol("n"), *array.shape[1:]) if i in symbolic else array.shape
        operands.append(None if array is None else builder.new_value(f"x{i}", Type(array.dtype, shape)))
    given = [operand for operand in operands if operand is not None]
    attributes = attributes_of(case, inputs_of(case, dtype))
    result = op(*operands, **attributes) if given else builder.create(op, **attributes)
    results = result if isinstance(result, tuple) else (result,)
    return Program(
        inputs=tuple(operand.value for operand in given),
        outputs=tuple(traced.value for traced in results),
        nodes=tuple(builder.nodes),
        parameters={},
        buffers={},
        constants=tuple(builder.constants),
        calls=(CellCall("", "Case"),),
        arguments=Structure("tuple", (Structure("tuple", (TENSOR,) * len(given)), Structure("dict"))),
        result=Structure("tuple", (TENSOR,) * len(results)),
    )


def assert_close(actual: Array, expected: Array, dtype: str, scale: float = 0.0) -> None:
    """Equal up to rounding; `scale` is the size of what was added up, where less than that may be left of it."""
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    rtol, scale_rtol = RTOL[dtype]
    wide = expected.astype(np.float64) if is_floating(expected.dtype) else expected
    finite = np.abs(wide[np.isfinite(wide)]) if is_floating(expected.dtype) else np.array([])
    atol = scale_rtol * float(finite.max(initial=scale))
    np.testing.assert_allclose(actual.astype(wide.dtype), wide, rtol=rtol, atol=atol)


def check_kernel(case: OpCase, dtype: str) -> None:
    inputs = inputs_of(case, dtype)
    expected = run_torch(case, [as_torch(array) for array in inputs[: len(case.inputs)]])
    for actual, tensor in zip(run_kernel(case, inputs), expected, strict=False):
        assert_close(actual, tensor.detach().numpy(), dtype)


def check_half(case: OpCase, dtype: str) -> None:
    """In half precision: what float32 gives for the same numbers, rounded once."""
    inputs = inputs_of(case, dtype)
    wide = run_kernel(case, [cast(array, np.float32) for array in inputs])
    for actual, expected in zip(run_kernel(case, inputs), wide, strict=True):
        if is_floating(expected.dtype) and actual.dtype == as_dtype(dtype):
            expected = expected.astype(actual.dtype)
        assert actual.dtype == expected.dtype
        np.testing.assert_array_equal(actual.astype(np.float64), expected.astype(np.float64), strict=True)


def check_vjp(case: OpCase) -> None:
    inputs = inputs_of(case, np.float64)
    ys = run_kernel(case, inputs)
    gs = cotangents(ys)
    gradients = run_vjp(case, gs, ys, inputs)
    tensors = [as_torch(array) for array in inputs]
    flows = differentiated(case)
    leaves = [
        t.requires_grad_() for t, has_gradient in zip(tensors, flows, strict=True) if has_gradient and t is not None
    ]
    outputs = run_torch(case, tensors[: len(case.inputs)])
    pairs = [(y, as_torch(g)) for y, g in zip(outputs, gs, strict=False) if g is not None and y.requires_grad]
    heads, seeds = zip(*pairs, strict=True) if pairs else ((), ())
    expected = iter(torch.autograd.grad(heads, leaves, seeds, allow_unused=True) if pairs else [None] * len(leaves))
    for gradient, array, has_gradient in zip(gradients, inputs, flows, strict=True):
        if array is None or not has_gradient:
            assert gradient is None
            continue
        judged, zero = next(expected), np.zeros_like(array)
        assert_close(
            zero if gradient is None else gradient, zero if judged is None else judged.numpy(), "float64", scale=1.0
        )


def check_vjp_by_differences(case: OpCase) -> None:
    """The gradient along a random direction, against the central difference."""
    inputs = inputs_of(case, np.float64)
    rng = np.random.default_rng(2)
    step = 1e-5
    directions = [
        rng.standard_normal(x.shape) if x is not None and moves else None
        for x, moves in zip(inputs, differentiated(case), strict=True)
    ]

    def moved(by: float) -> tuple[Array, ...]:
        return run_kernel(
            case, [x if d is None or x is None else x + by * d for x, d in zip(inputs, directions, strict=True)]
        )

    ys, ahead, behind = run_kernel(case, inputs), moved(step), moved(-step)
    gs = cotangents(ys)
    gradients = run_vjp(case, gs, ys, inputs)
    slope = 0.0
    for g, y, after, before in zip(gs, ys, ahead, behind, strict=True):
        if g is not None:
            slope += float(((after - before) / (2 * step) * g).sum())
            steepest = np.abs(after - before).max(initial=0.0) / step
            if np.abs(after - 2 * y + before).max(initial=0.0) > 1e-3 * step * (1 + steepest):
                assert case.torch is not None, "not smooth here, and no torch to tell which derivative is meant"
                return
    by_rule = float(
        sum((g * d).sum() for g, d in zip(gradients, directions, strict=True) if g is not None and d is not None)
    )
    np.testing.assert_allclose(by_rule, slope, rtol=1e-5, atol=1e-6)


def check_vjp_as_program(case: OpCase) -> None:
    """The same rule, recorded instead of computed."""
    program = one_node_program(case, np.float64)
    inputs = [array for array in inputs_of(case, np.float64) if array is not None]
    ys = run_kernel(case, inputs_of(case, np.float64))
    gs = cotangents(ys)
    eager = run_vjp(case, gs, ys, inputs_of(case, np.float64))
    at_once = [gradient for gradient, array in zip(eager, operands_of(case), strict=True) if array is not None]
    backward = differentiate(program)
    for value, gradient in zip(backward.input_gradients, at_once, strict=True):
        assert (value is None) == (gradient is None)
        if value is not None:
            seeds = [g for g in gs if g is not None]
            (recorded,) = execute(backward.program, [*inputs, *seeds], wanted=[value])
            assert_close(recorded, gradient, "float64", scale=1.0)


def check_onnx(case: OpCase, dtype: str, opsets: Sequence[int | None] = (None,)) -> None:
    """The ONNX form at each of the opsets; those that aren't the same as at one before are checked and run."""
    program = one_node_program(case, dtype)
    inputs = [array for array in inputs_of(case, dtype) if array is not None]
    computed = []
    for opset in opsets:
        model = to_onnx(program, opset=opset)
        if (computation := computation_of(model)) not in computed:
            computed.append(computation)
            onnx.checker.check_model(model, full_check=True)
            onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
            check_results(
                case, dtype, model, dict(zip([value.name for value in model.graph.input], inputs, strict=True))
            )


def computation_of(model: onnx.ModelProto) -> tuple[bytes, set[tuple[str, str, int]]]:
    """What a model computes, whatever the number of its opset: its graph, and the versions of its operators."""
    assert not model.functions
    opsets = {opset.domain: opset.version for opset in model.opset_import}
    versions = set()
    graphs = [model.graph]
    for graph in graphs:
        for node in graph.node:
            graphs += [attribute.g for attribute in node.attribute if attribute.type == onnx.AttributeProto.GRAPH]
            version = opsets[node.domain]
            if onnx.defs.has(node.op_type, version, node.domain):
                version = onnx.defs.get_schema(node.op_type, version, node.domain).since_version
            versions.add((node.domain, node.op_type, version))
    return model.graph.SerializeToString(deterministic=True), versions


def check_results(case: OpCase, dtype: str, model: onnx.ModelProto, feeds: dict[str, Array]) -> None:
    """What ONNX Runtime computes is what the kernel does, in a dtype in which it has all operators."""
    if {node.op_type for node in model.graph.node} & ORT_LACKS.get(dtype, set()):
        with pytest.raises(SessionError):
            run_model(model, feeds)
        return
    results = run_model(model, feeds)
    for actual, expected in zip(results.values(), run_kernel(case, inputs_of(case, dtype)), strict=True):
        assert_close(actual, expected, dtype)


def check_symbolic(case: OpCase) -> None:
    """With a symbolic first dimension: of all inputs that are as long as the first, or else of the first alone."""
    inputs = inputs_of(case, np.float32)
    assert inputs[0] is not None
    size = inputs[0].shape[0]
    alike = [i for i, x in enumerate(inputs) if x is not None and x.ndim and x.shape[0] == size]
    try:
        program = one_node_program(case, np.float32, alike)
    except (ShapeError, TypeError):
        program = one_node_program(case, np.float32, [0])
    given = [array for array in inputs if array is not None]
    expected = execute(program, given)
    sizes = {r.symbol: r.size(expected) for readings in program.symbol_readings.values() for r in readings}
    for value, array in zip(program.outputs, expected, strict=True):
        assert tuple(dims.evaluate(dim, {"n": size} | sizes) for dim in value.shape) == array.shape
    model = to_onnx(program)
    onnx.checker.check_model(model, full_check=True)
    results = run_model(model, dict(zip([value.name for value in model.graph.input], given, strict=True)))
    for actual, array in zip(results.values(), expected, strict=True):
        assert_close(actual, array, "float32")


def missing_rules(op: Op, cases: list[OpCase]) -> list[str]:
    """What an op lacks of what every op must have."""
    lacks = [concern for concern in ("infer", "kernel") if getattr(op, f"{concern}_rule") is None]
    for concern in ("vjp", "onnx"):
        rule, reason = getattr(op, f"{concern}_rule"), getattr(op, f"no_{concern}_reason")
        if (rule is None) == (not reason):
            lacks.append(f"either {concern} or a reason why there is none")
    if not any(case.op == op.name for case in cases):
        lacks.append("a case")
    return lacks
