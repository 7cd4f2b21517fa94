"""torch's own operator database, tried on the converter: forward, gradients and ONNX, on its own sample inputs.

`try_entry` returns the outcome of one entry as data; `test_operators.py` compares it with the list of known gaps.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from cellbridge.converter.capture.export import from_torch
from cellbridge.converter.onnx_out.export import to_onnx
from cellbridge.runtime.compiled.session import run_model
from cellbridge.runtime.errors import ConversionError, UnsupportedOperators, UsageError
from cellbridge.runtime.ops.registry import get
from tests.coverage import gaps
from tests.coverage.drawing import Draws, Replaying, real

DTYPES = (torch.float32, torch.float64)
OTHERS = (torch.int64, torch.int32, torch.bool, torch.complex64)  # for operators that take no float32
TOLERANCE = {torch.float32: (1e-4, 1e-5), torch.complex64: (1e-4, 1e-5), torch.float64: (1e-7, 1e-9)}
LOOSER = 10  # for gradients and ONNX Runtime
# their contents are undefined: only dtype and shape are compared
UNDEFINED = frozenset(
    {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
)  # fmt: skip


@dataclass
class Outcome:
    """The outcome of one entry of the database.

    Each list has a line for each failing sample; `None` if there was nothing to try.

    Attributes:
        refused: samples that torch.export or the operator itself refuses, or that return no tensor.
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
        self.fixed = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.tensors = tuple(leaves[i].detach() for i in self.places)

    def forward(self, *tensors: torch.Tensor) -> Any:
        leaves = list(self.fixed)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        result = self.operator(*args, **kwargs)
        return tuple(x for x in pytree.tree_leaves(result) if isinstance(x, torch.Tensor))


@functools.cache
def database() -> dict[str, Any]:
    """Return the entries by name; needs `expecttest`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    return {entry.formatted_name: entry for entry in op_db}


def dtypes_of(entry: Any) -> list[torch.dtype]:
    """Return the dtypes in which an entry is tried."""
    supported = entry.supported_dtypes("cpu")
    return [d for d in DTYPES if d in supported] or [d for d in OTHERS if d in supported][:1]


def try_entry(name: str, samples: int = 6) -> Outcome:
    """Convert and run an entry on up to `samples` of its sample inputs in each dtype, spread over all of them."""
    entry = database()[name]
    outcome = Outcome(name)
    for dtype in dtypes_of(entry):
        for sample in _spread(entry, dtype, samples):
            Trial(entry, dtype, Sample(entry.op, sample), _describe(sample), outcome).run()
    return outcome


def _spread(entry: Any, dtype: torch.dtype, count: int) -> list[Any]:
    """Return up to `count` samples from a fixed seed, evenly spread over all samples."""
    torch.manual_seed(0)
    with quiet():
        samples = list(itertools.islice(entry.sample_inputs("cpu", dtype), 2000))
    step = max(len(samples) / count, 1)
    return [samples[int(i * step)] for i in range(min(count, len(samples)))]


def disagreements(outcome: Outcome, known: list[gaps.Gap]) -> list[str]:
    """Return how an entry's outcome differs from the gap list."""
    not_exported = outcome.name in gaps.entries_of(known, gaps.NOT_EXPORTED)
    if not outcome.tried:
        return [] if not_exported else [f"{outcome.name} isn't taken at all: {'; '.join(outcome.refused[:1])}"]
    wrong = [f"{outcome.name} is taken, the gaps say it isn't"] if not_exported else []
    for kind in gaps.KINDS:
        failures: list[str] = getattr(outcome, kind) or []
        if kind != "forward" and outcome.forward:
            continue
        if failures and outcome.name not in gaps.entries_of(known, kind):
            wrong.append(f"{outcome.name} fails {kind}: {failures[0]}")
        if not failures and outcome.name in gaps.entries_of(known, kind):
            wrong.append(f"{outcome.name} passes {kind}, the gaps say it doesn't")
    return wrong


@dataclass
class Trial:
    """One sample in one dtype, whose failures are added to `outcome`."""

    entry: Any
    dtype: torch.dtype
    module: Sample
    description: str
    outcome: Outcome

    def run(self) -> None:
        """Capture the sample, and run it forward, backward and in ONNX Runtime."""
        try:
            with Draws() as draws, quiet():
                expected = self.module(*self._inputs())
        except Exception as error:  # noqa: BLE001  (any exception is a fault of the sample)
            return self.outcome.refused.append(self._line(error))
        if not expected:
            return self.outcome.refused.append(self._line("gives no tensor"))
        program = self._capture()
        if program is None:
            return None
        self.outcome.tried += 1
        replay = Replaying(program, draws)
        try:
            actual: Any = replay.run(self.module.tensors)
        except Exception as error:  # noqa: BLE001
            return self.outcome.forward.append(self._line(error))
        if wrong := self._wrong(expected, actual, lambda wide: self.module(*wide), replay):
            return self.outcome.forward.append(self._line(wrong))
        if self.entry.supports_autograd and (self.dtype.is_floating_point or self.dtype.is_complex):
            self._backward(replay)
        if self.dtype != torch.float64:
            self._onnx(program, expected, bool(draws.recorded))
        return None

    def _capture(self) -> Any:
        """Return the program; None if torch.export refuses the sample, or the converter fails, which is recorded."""
        try:
            with quiet():
                return from_torch(self.module, self._inputs())
        except UnsupportedOperators as error:
            problem = f"unsupported {'; '.join(op for op, _, _ in error.operators)}"
        except (UsageError, ConversionError) as error:
            if isinstance(error, UsageError) or "torch.export refuses" in str(error):
                self.outcome.refused.append(self._line(error))
                return None
            problem = str(error)
        except Exception as error:  # noqa: BLE001
            problem = f"crash, {type(error).__name__}: {error}"
        self.outcome.tried += 1
        self.outcome.forward.append(self._line(problem))
        return None

    def _backward(self, replay: Replaying) -> None:
        """Compare gradients of floating-point and complex inputs, with one random cotangent per output."""
        seeds: list[torch.Tensor] = []

        def gradients(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
            leaves = [t.detach().clone().requires_grad_(_differentiable(t)) for t in inputs]
            with replay.replay_in_torch():
                outputs = [x for x in self.module(*leaves) if _differentiable(x)]
            roots = [x for x in outputs if x.requires_grad]
            inputs_ = [x for x in leaves if x.requires_grad]
            if not roots or not inputs_:
                return []
            if not seeds:
                seeds.extend(torch.randn_like(x) if x.requires_grad else torch.zeros_like(x) for x in outputs)
            cotangents = [s.to(x.dtype) for s, x in zip(seeds, outputs, strict=True) if x.requires_grad]
            results = torch.autograd.grad(roots, inputs_, cotangents, allow_unused=True)
            return [_dense(x, g) for x, g in zip(inputs_, results, strict=True)]

        try:
            with quiet():
                expected = gradients(self.module.tensors)
        except RuntimeError:
            return  # torch has no gradient of this sample
        if not expected:
            return
        if self.outcome.backward is None:
            self.outcome.backward = []
        try:
            actual = replay.gradients(self.module.tensors, seeds)
        except Exception as error:  # noqa: BLE001
            self.outcome.backward.append(self._line(error))
            return
        if wrong := self._wrong(expected, actual, gradients, replay, LOOSER):
            self.outcome.backward.append(self._line(f"gradient, {wrong}"))

    def _onnx(self, program: Any, expected: Any, random: bool) -> None:
        if self.outcome.onnx is None:
            self.outcome.onnx = []
        try:
            with quiet():
                model = to_onnx(program)
                names = [i.name for i in model.graph.input]
                results = run_model(model, dict(zip(names, map(real, self.module.tensors), strict=True)))
        except Exception as error:  # noqa: BLE001
            self.outcome.onnx.append(self._line(error))
            return
        undefined = random or self.entry.name in UNDEFINED
        if wrong := differences(expected, list(results.values()), self.dtype, LOOSER, values=not undefined):
            self.outcome.onnx.append(self._line(wrong))

    def _wrong(
        self, expected: Any, actual: Any, function: Callable[[Any], Any], replay: Replaying, scale: float = 1
    ) -> str:
        """Return the first difference; in float32, only if it exceeds twice torch's own error against float64."""
        wrong = differences(expected, actual, self.dtype, scale, values=self.entry.name not in UNDEFINED)
        if not wrong or self.dtype != torch.float32 or replay.recorded or torch.float64 not in dtypes_of(self.entry):
            return wrong
        with quiet():
            precise = function([t.double() if t.dtype == torch.float32 else t for t in self.module.tensors])
        torch_off, program_off = (_largest_error(results, precise) for results in (expected, actual))
        return "" if program_off <= 2 * torch_off else wrong

    def _inputs(self) -> tuple[torch.Tensor, ...]:
        return tuple(t.clone() for t in self.module.tensors)

    def _line(self, problem: Any) -> str:
        text = f"{type(problem).__name__}: {problem}" if isinstance(problem, Exception) else problem
        return f"{str(self.dtype)[6:]} {self.description}: {text}"


def replays(program: Any) -> bool:
    """Whether a program draws random numbers."""
    return any(get(node.op).traits.draws for node in program.nodes)


def differences(expected: Any, actual: Any, dtype: torch.dtype, scale: float = 1, *, values: bool = True) -> str:
    """Return the first difference of tensors and arrays, or an empty string; without `values`, only of types."""
    if len(expected) != len(actual):
        return f"{len(actual)} results for {len(expected)}"
    rtol, atol = TOLERANCE.get(dtype, (0, 0))
    for i, (tensor, array) in enumerate(zip(expected, actual, strict=True)):
        truth = real(tensor)
        if truth.shape != array.shape or truth.dtype != array.dtype:
            return f"result {i} is {array.dtype}{array.shape}, torch's {truth.dtype}{truth.shape}"
        if not values:
            continue
        floating = truth.dtype.kind == "f"
        wide, result = (x.astype(np.float64) if floating else x for x in (truth, array))
        largest = np.abs(wide[np.isfinite(wide)]).max(initial=1.0) if floating else 0
        if not np.allclose(result, wide, rtol * scale, atol * scale * largest, equal_nan=True):
            finite = np.isfinite(wide) if floating else np.ones(wide.shape, bool)
            if floating and not np.array_equal(finite, np.isfinite(result)):
                return f"result {i} is finite elsewhere than torch's"
            error = np.abs(result[finite].astype(np.float64) - wide[finite].astype(np.float64))
            return f"result {i} differs by {error.max(initial=0):.2g}"
    return ""


def _largest_error(results: Any, precise: Any) -> float:
    """Return the largest difference from results in float64; infinite if only one of them is finite."""
    furthest = 0.0
    for x, truth in zip(results, precise, strict=True):
        a = (real(x) if isinstance(x, torch.Tensor) else x).astype(np.float64)
        b = real(truth).astype(np.float64)
        if a.shape != b.shape or not np.array_equal(np.isfinite(a), np.isfinite(b)):
            return np.inf
        furthest = max(furthest, np.abs(a - b)[np.isfinite(b)].max(initial=0))
    return furthest


def _dense(x: torch.Tensor, gradient: torch.Tensor | None) -> torch.Tensor:
    """Return the gradient of `x` as an ordinary tensor, zeros if there is none."""
    if gradient is None or gradient._is_zerotensor():
        return torch.zeros_like(x)
    return gradient.to_dense()


def _differentiable(x: torch.Tensor) -> bool:
    return x.is_floating_point() or x.is_complex()


def _describe(sample: Any) -> str:
    def show(x: Any) -> Any:
        return f"{str(x.dtype)[6:]}{list(x.shape)}" if isinstance(x, torch.Tensor) else x

    args = pytree.tree_map(show, (sample.input, *sample.args))
    return f"{args} {pytree.tree_map(show, sample.kwargs)}"[:300]


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Within the context, suppress logs and warnings."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            logging.disable(before)
