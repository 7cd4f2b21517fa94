"""torch's own operator database, tried on the converter: forward, gradients and ONNX, on its own sample inputs.

`try_entry` gives what happened to one entry, as data; `test_operators.py` holds it against the list of known gaps.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from cellbridge.converter.capture.export import from_torch
from cellbridge.converter.onnx_out.export import to_onnx
from cellbridge.parity.sides.onnxruntime_session import run_model
from cellbridge.runtime.calling import as_array
from cellbridge.runtime.ir.program import Program
from tests.coverage.drawing import Draws, Replaying

DTYPES = (torch.float32, torch.float64)
OTHERS = (torch.int64, torch.int32, torch.bool, torch.complex64)  # for operators that take no float32
TOLERANCE = {torch.float32: (1e-4, 1e-5), torch.float64: (1e-7, 1e-9), torch.complex64: (1e-4, 1e-5)}


@dataclass
class Outcome:
    """What became of one entry of the database.

    Each list holds what failed, a line for each sample; `None` for what wasn't there to try.

    Attributes:
        refused: samples that torch.export, or the module itself, refuses.
        tried: samples that were captured.
    """

    name: str
    tried: int = 0
    refused: list[str] = field(default_factory=list)
    forward: list[str] = field(default_factory=list)
    backward: list[str] | None = None
    onnx: list[str] | None = None


class Sample(torch.nn.Module):
    """One sample as a module: its tensors are the inputs, everything else is fixed."""

    def __init__(self, operator: Callable[..., Any], sample: Any) -> None:
        super().__init__()
        leaves, self.spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        self.operator = operator
        # of an eigenvector, say, what doesn't depend on its sign
        self.meaningful = sample.output_process_fn_grad
        self.fixed = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.tensors = tuple(leaves[i].detach() for i in self.places)

    def forward(self, *tensors: torch.Tensor) -> Any:
        leaves = list(self.fixed)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        result = self.meaningful(self.operator(*args, **kwargs))
        return tuple(x for x in pytree.tree_leaves(result) if isinstance(x, torch.Tensor))


@functools.cache
def database() -> dict[str, Any]:
    """The entries by name; needs `expecttest`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    return {entry.formatted_name: entry for entry in op_db}


def try_entry(name: str, samples: int = 6) -> Outcome:
    """Convert and run an entry on up to `samples` of its sample inputs in each dtype, spread over all of them."""
    entry = database()[name]
    outcome = Outcome(name)
    supported = entry.supported_dtypes("cpu")
    dtypes = [d for d in DTYPES if d in supported] or [d for d in OTHERS if d in supported][:1]
    for dtype in dtypes:
        for sample in _spread(entry, dtype, samples):
            _try_sample(entry, dtype, sample, outcome)
    return outcome


def _spread(entry: Any, dtype: torch.dtype, count: int) -> list[Any]:
    """Up to `count` samples, drawn from a fixed seed, evenly over all that there are; those with a gradient first."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = list(itertools.islice(entry.sample_inputs("cpu", dtype), 2000))
    step = max(len(found) / count, 1)
    return [found[int(i * step)] for i in range(min(count, len(found)))]


def _try_sample(entry: Any, dtype: torch.dtype, sample: Any, outcome: Outcome) -> None:
    from cellbridge.runtime.errors import ConversionError, UnsupportedOperators, UsageError

    module = Sample(entry.op, sample)
    described = f"{dtype}: {_described(sample)}"[:300]
    try:
        with Draws() as draws, _quiet():
            expected = module(*(t.clone() for t in module.tensors))
    except Exception as error:  # noqa: BLE001  (the sample is at fault, whatever it raises)
        outcome.refused.append(f"{described}: {error}")
        return
    try:
        with _quiet():
            program = from_torch(module, tuple(t.clone() for t in module.tensors))
    except UnsupportedOperators as error:
        outcome.tried += 1
        outcome.forward.append(f"{described}: unsupported {'; '.join(op for op, _, _ in error.operators)}")
        return
    except UsageError as error:
        outcome.refused.append(f"{described}: {error}")
        return
    except ConversionError as error:
        if "torch.export refuses" in str(error):
            outcome.refused.append(f"{described}: {error}")
        else:
            outcome.tried += 1
            outcome.forward.append(f"{described}: {error}")
        return
    except Exception as error:  # noqa: BLE001
        outcome.tried += 1
        outcome.forward.append(f"{described}: CRASH {type(error).__name__}: {error}")
        return
    outcome.tried += 1
    replay = Replaying(program, draws)
    try:
        actual = replay.run(module.tensors)
    except Exception as error:  # noqa: BLE001
        outcome.forward.append(f"{described}: {type(error).__name__}: {error}")
        return
    wrong = _differences(expected, actual, dtype)
    if wrong:
        outcome.forward.append(f"{described}: {wrong}")
        return
    if entry.supports_autograd and (dtype.is_floating_point or dtype.is_complex):
        _try_backward(module, program, replay, dtype, described, outcome)
    if dtype != torch.float64:
        _try_onnx(program, module, expected, dtype, described, outcome)


def _try_backward(
    module: Sample, program: Program, replay: Any, dtype: torch.dtype, described: str, outcome: Outcome
) -> None:
    """Gradients of the floating-point and complex inputs, with one random cotangent per output."""
    inputs = [t.detach().clone().requires_grad_(t.is_floating_point() or t.is_complex()) for t in module.tensors]
    try:
        with replay.redrawn(), _quiet():
            outputs = module(*inputs)
        reached = [x for x in outputs if x.requires_grad]
        wanted = [x for x in inputs if x.requires_grad]
        if not reached or not wanted:
            return
        seeds = [torch.randn_like(x) for x in reached]
        expected = torch.autograd.grad(reached, wanted, seeds, allow_unused=True)
    except RuntimeError:
        return  # torch has no gradient of this sample
    if outcome.backward is None:
        outcome.backward = []
    given = iter(seeds)
    cotangents = [
        next(given) if x.requires_grad else torch.zeros_like(x)
        for x in outputs
        if x.is_floating_point() or x.is_complex()
    ]
    try:
        actual = replay.gradients(module.tensors, cotangents)
    except Exception as error:  # noqa: BLE001
        outcome.backward.append(f"{described}: {type(error).__name__}: {error}")
        return
    reference = [torch.zeros_like(x) if g is None else g for x, g in zip(wanted, expected, strict=True)]
    wrong = _differences(reference, [g for g in actual if g is not None], dtype, scale=10)
    if wrong:
        outcome.backward.append(f"{described}: gradient {wrong}")


def _try_onnx(
    program: Program, module: Sample, expected: Any, dtype: torch.dtype, described: str, outcome: Outcome
) -> None:
    if outcome.onnx is None:
        outcome.onnx = []
    try:
        with _quiet():
            model = to_onnx(program)
            names = [i.name for i in model.graph.input]
            arrays = [_real(t) for t in module.tensors]
            results = run_model(model, dict(zip(names, arrays, strict=True)))
    except Exception as error:  # noqa: BLE001
        outcome.onnx.append(f"{described}: {type(error).__name__}: {error}")
        return
    wrong = "" if replays(program) else _differences(expected, list(results.values()), dtype, scale=10)
    if wrong:
        outcome.onnx.append(f"{described}: ONNX Runtime {wrong}")


def replays(program: Program) -> bool:
    """Whether a program draws random numbers."""
    from cellbridge.runtime.ops.random import RANDOM_OPS

    return any(node.op in RANDOM_OPS for node in program.nodes)


def _differences(expected: Any, actual: Any, dtype: torch.dtype, scale: float = 1) -> str:
    """The first difference, or nothing."""
    if len(expected) != len(actual):
        return f"{len(actual)} results for {len(expected)}"
    rtol, atol = TOLERANCE.get(dtype, (0, 0))
    for i, (tensor, array) in enumerate(zip(expected, actual, strict=True)):
        truth = _real(tensor)
        if truth.shape != array.shape or truth.dtype != array.dtype:
            return f"result {i}: {array.dtype}{array.shape} for {truth.dtype}{truth.shape}"
        wide = np.float64 if truth.dtype.kind == "f" else truth.dtype
        largest = np.abs(truth[np.isfinite(truth)]).max(initial=1.0) if truth.dtype.kind == "f" else 0
        if not np.allclose(
            array.astype(wide), truth.astype(wide), rtol * scale, atol * scale * largest, equal_nan=True
        ):
            error = np.abs(array.astype(np.float64) - truth.astype(np.float64))
            return f"result {i} differs by {np.nanmax(error):.2g}"
    return ""


def _real(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """As an array; complex numbers as pairs of reals."""
    return as_array(torch.view_as_real(tensor.detach().resolve_conj()) if tensor.is_complex() else tensor)


def _described(sample: Any) -> str:
    def show(x: Any) -> Any:
        return f"{str(x.dtype)[6:]}{list(x.shape)}" if isinstance(x, torch.Tensor) else x

    args = pytree.tree_map(show, (sample.input, *sample.args))
    return f"{args} {pytree.tree_map(show, sample.kwargs)}"


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    import logging

    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            logging.disable(before)
