"""Numbers that a model computes without tensors: they are constants in the graph, and none may be random."""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np
import torch
from torch.ao.quantization.fake_quantize import FakeQuantize, FakeQuantizeBase
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes

from ...runtime.errors import ConversionError

_ARITHMETIC = frozenset(
    (torch.add, torch.sub, torch.mul, torch.div, torch.true_divide, torch.floor_divide, torch.remainder, torch.fmod)
)

SWITCHES = ("observer_enabled", "fake_quant_enabled")


class KnownNumbers(TorchFunctionMode):
    """Within the context, operators on numbers alone (`torch.div(8, 4)`) are computed at once.

    Recorded as operators, their results would be tensors of unknown value, and a size computed from one
    (`int(torch.div(length, window))`) would seem to depend on data.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func not in _ARITHMETIC or not all(isinstance(x, (int, float)) for x in args):
            return func(*args, **kwargs or {})
        with _disable_current_modes():
            result = func(*args, **kwargs or {})
        return torch.tensor(result.item(), dtype=result.dtype)


class UntrackedRandomness:
    """Detects random numbers drawn outside torch since it was created, and the modules that drew them.

    Tracing would make the outcome of such a draw (a mask made by NumPy, a layer that Python's `random` skips) constant.
    """

    def __init__(self) -> None:
        self.before = random.getstate(), np.random.get_state()

    def sources(self) -> list[str]:
        """The names of the Python modules."""
        python, numpy = self.before
        same = all(np.array_equal(a, b) for a, b in zip(numpy, np.random.get_state(), strict=True))
        sampled = {"Python's random": random.getstate() != python, "numpy.random": not same}
        return [name for name, has_drawn in sampled.items() if has_drawn]

    def refuse(self) -> NoReturn:
        """Raise the `ConversionError` for random numbers that change the traced graph."""
        raise ConversionError(
            f"the model draws random numbers with {' and '.join(self.sources())}, and they would be the same in every "
            "run of the program\n  what to do: draw them with torch in forward, pass them as inputs, or switch them off"
        )


@contextlib.contextmanager
def extreme_random_numbers(least: bool) -> Iterator[None]:
    """Within the context, Python's `random` draws the least number it can, or the greatest.

    A layer that a draw may skip is skipped with one of the two and not with the other.
    """
    original_random, original_uniform = random.random, random.uniform
    random.random = lambda: 0.0 if least else math.nextafter(1.0, 0.0)
    random.uniform = lambda a, b: a if least else b
    try:
        yield
    finally:
        random.random, random.uniform = original_random, original_uniform


@contextlib.contextmanager
def settings_as_numbers(root: torch.nn.Module) -> Iterator[None]:
    """Within the context, integers that modules keep as non-persistent buffers are Python numbers.

    A stride or a kernel size in such a buffer is a setting. As a tensor of unknown value it would make every size
    computed from it depend on data. The switches of torch's fake quantization are settings, too.

    Raises:
        ConversionError: the observer of a fake quantization is enabled, so that its scale depends on past inputs.
    """
    _require_no_observers(root)
    classes = {module: type(module) for module in root.modules()}
    originals: list[tuple[torch.nn.Module, dict[str, torch.Tensor | None]]] = []
    try:
        for module, kind in classes.items():
            settings = {name: buffer for name, buffer in module._buffers.items() if _is_setting(module, name, buffer)}
            if isinstance(module, FakeQuantize):
                settings |= {name: module._buffers[name] for name in SWITCHES}
            if settings:
                originals.append((module, dict(module._buffers)))
                module.__class__ = type(kind.__name__, (kind,), _attributes(module, settings))
                for name in settings:
                    del module._buffers[name]
        yield
    finally:
        for module, buffers in originals:
            module.__class__ = classes[module]
            module._buffers.clear()
            module._buffers.update(buffers)


def _require_no_observers(root: torch.nn.Module) -> None:
    watching = [
        path or "the module itself"
        for path, module in root.named_modules()
        if isinstance(module, FakeQuantizeBase) and bool(module.observer_enabled.any())
    ]
    if watching:
        others = f" and {len(watching) - 1} others" if len(watching) > 1 else ""
        raise ConversionError(
            f"the observer of {watching[0]}{others} is enabled: it updates the scale from the values that it sees, "
            "which a program can't do\n  what to do: switch observers off once they have seen enough, "
            "module.apply(torch.ao.quantization.disable_observer)"
        )


def _attributes(module: torch.nn.Module, settings: dict[str, torch.Tensor | None]) -> dict[str, Any]:
    """The class attributes that replace buffers of a module."""
    attributes: dict[str, Any] = {name: _constant_property(buffer) for name, buffer in settings.items()}
    if isinstance(module, FakeQuantize):  # a fused one gives the same results while its observer is off
        attributes["forward"] = FakeQuantize.forward
    return attributes


def _is_setting(module: torch.nn.Module, name: str, buffer: torch.Tensor | None) -> bool:
    temporary = name in module._non_persistent_buffers_set
    return temporary and buffer is not None and buffer.ndim == 0 and buffer.dtype in (torch.int64, torch.int32)


def _constant_property(buffer: torch.Tensor | None) -> property:
    assert buffer is not None
    if buffer.ndim:
        numbers = buffer.tolist()
        return property(lambda module: numbers)
    number, dtype = buffer.item(), buffer.dtype
    return property(lambda module: torch.tensor(number, dtype=dtype))
