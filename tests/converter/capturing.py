"""Capture a module and hold the program against it: outputs, gradients and buffer updates, with torch's own draws."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from cellbridge.converter.capture.export import from_torch
from cellbridge.parity.sides.precision import convert, is_inexact
from cellbridge.parity.sides.program_draws import without_leading_ones
from cellbridge.runtime.ir.program import Program
from cellbridge.runtime.ir.types import Type, is_floating
from cellbridge.runtime.ops.registry import get
from cellbridge.runtime.programs.call import as_array, flat_inputs, gradient_program
from cellbridge.runtime.programs.interpreter import execute

Array = np.ndarray[Any, Any]

DRAWING = {
    torch.ops.aten.bernoulli.default, torch.ops.aten.bernoulli.p, torch.ops.aten.bernoulli_.float,
    torch.ops.aten.bernoulli_.Tensor, torch.ops.aten.exponential_.default, torch.ops.aten.normal.float_float,
    torch.ops.aten.normal_.default, torch.ops.aten.rand.default, torch.ops.aten.rand_like.default,
    torch.ops.aten.randint.default, torch.ops.aten.randint.low, torch.ops.aten.randint_like.default,
    torch.ops.aten.randint_like.low_dtype, torch.ops.aten.randn.default, torch.ops.aten.randn_like.default,
    torch.ops.aten.uniform_.default,
}  # fmt: skip
TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2}


class Function(nn.Module):
    """A function as a module, with parameters if it needs some: they come first among its arguments."""

    def __init__(self, function: Callable[..., Any], *parameters: Tensor) -> None:
        super().__init__()
        self.function = function
        self.held = nn.ParameterList(nn.Parameter(p) for p in parameters)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*self.held, *args, **kwargs)


class Each(nn.Module):
    """Modules side by side, so that one capture tries many: takes and gives a dict, by name."""

    def __init__(self, modules: dict[str, nn.Module]) -> None:
        super().__init__()
        self.each = nn.ModuleDict(modules)

    def forward(self, inputs: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
        return {name: module(*inputs[name]) for name, module in self.each.items()}


class Draws(TorchDispatchMode):
    """Keeps what torch draws while it runs, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.recorded: list[Array] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in DRAWING:
            self.recorded.append(as_array(result.clone()))
        return result


def assert_matches_torch(
    module: nn.Module,
    *args: Any,
    train: bool = False,
    dtype: torch.dtype = torch.float64,
    dynamic_shapes: Any = None,
    other_args: tuple[Any, ...] | None = None,
    tolerance: float | None = None,
) -> Program:
    """Capture `module` on `args`, run both (on `other_args` if given) and compare all there is to compare.

    Floating-point tensors are taken in `dtype`, complex ones with parts in it. Errors are measured against the largest
    element of each tensor.
    """
    module = copy.deepcopy(module).train(train)
    module._apply(lambda x: convert(x, dtype) if is_inexact(x) else x)
    args = _prepared(args, dtype)
    program = from_torch(module, args, train=train, dynamic_shapes=dynamic_shapes)
    args = args if other_args is None else _prepared(other_args, dtype)
    before = {name: buffer.clone() for name, buffer in module.named_buffers()}

    with Draws() as draws:
        labels, outputs = _tensors(module(*args))
    generator = torch.Generator().manual_seed(0)  # the same numbers, whichever tests ran before
    cotangents = [torch.randn(x.shape, generator=generator, dtype=x.dtype) for x in outputs if is_inexact(x)]
    seeded = zip((x for x in outputs if is_inexact(x)), cotangents, strict=True)
    differentiable = [(x, c) for x, c in seeded if x.requires_grad]
    if differentiable:
        torch.autograd.backward(*([pair[i] for pair in differentiable] for i in (0, 1)))

    backward = gradient_program(program)
    nodes = [node for node in backward.program.nodes if get(node.op).traits.draws]
    shapes = [array.shape for array in draws.recorded]
    assert len(nodes) == len(shapes), f"torch drew {shapes}, the program {[str(n.outputs[0]) for n in nodes]}"
    recorded = [without_leading_ones(a, len(n.outputs[0].shape)) for n, a in zip(nodes, draws.recorded, strict=True)]
    replayed = {node.outputs[0].name: array for node, array in zip(nodes, recorded, strict=True)}
    for node, array in zip(nodes, recorded, strict=True):
        sampled, replay = node.outputs[0].type, Type(array.dtype, array.shape)
        assert dynamic_shapes or sampled == replay, f"torch drew {replay}, the program {sampled}"

    buffers = dict(module.named_buffers())
    updates = {name: buffer.update for name, buffer in program.buffers.items() if buffer.update is not None}
    for name, unseen in before.items():
        assert name in updates or torch.equal(unseen, buffers[name]), f"update of {name} unseen"
    paths, inputs = _tensors(args)
    expected: list[tuple[str, Any, Any]] = [
        *((f"output {path}", x, v) for path, x, v in zip(labels, outputs, program.outputs, strict=True)),
        *((f"buffer {name}", buffers[name], v) for name, v in updates.items()),
        *(
            (f"gradient of input {path}", x.grad, v)
            for path, x, v in zip(paths, inputs, backward.input_gradients, strict=True)
            if is_inexact(x)
        ),
        *((f"gradient of {n}", p.grad, backward.parameter_gradients[n]) for n, p in module.named_parameters()),
    ]
    values = [value for _, _, value in expected if value is not None]
    arrays = flat_inputs(program, args, {}) + [as_array(c) for c in cotangents]
    results = iter(execute(backward.program, arrays, wanted=values, draws=replayed))
    limit = TOLERANCE[dtype] if tolerance is None else tolerance
    for what, tensor, value in expected:
        computed = None if value is None else next(results)
        if tensor is None or computed is None:
            present = computed if tensor is None else as_array(tensor)
            assert present is None or not present.any(), f"{what}: one side has none, the other isn't zero"
        else:
            assert_close(what, computed, as_array(tensor), limit)
    return program


def assert_close(what: str, actual: Array, expected: Array, limit: float) -> None:
    assert actual.dtype == expected.dtype, f"{what}: {actual.dtype} for {expected.dtype}"
    assert actual.shape == expected.shape, f"{what}: {actual.shape} for {expected.shape}"
    if not is_floating(expected.dtype):
        np.testing.assert_array_equal(actual, expected, err_msg=what)
        return
    wide, truth = actual.astype(np.float64), expected.astype(np.float64)
    largest = np.abs(truth[np.isfinite(truth)]).max(initial=0.0)
    np.testing.assert_allclose(wide, truth, rtol=limit, atol=limit * max(largest, 1e-3), err_msg=what)


def _prepared(args: Any, dtype: torch.dtype) -> Any:
    """Fresh leaves, floating-point ones in `dtype` and asking for a gradient."""

    def prepare(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        return convert(x.detach(), dtype).clone().requires_grad_() if is_inexact(x) else x.clone()

    return pytree.tree_map(prepare, args)


def _tensors(nested: Any) -> tuple[list[str], list[Tensor]]:
    """The tensors in a structure, and where each is."""
    leaves = [(pytree.keystr(path), x) for path, x in pytree.tree_leaves_with_path(nested) if isinstance(x, Tensor)]
    return [path for path, _ in leaves], [x for _, x in leaves]
