"""Numbers that a model makes without tensors: what torch computes of them stays known, and none may be random."""

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
    """Within the context, `torch.div(8, 4)` and its like are computed at once.

    Recorded as operators, they would be tensors of unknown value, and a size that is computed from one
    (`int(torch.div(length, window))`) would look as if it depended on the data.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func not in _ARITHMETIC or not all(isinstance(x, (int, float)) for x in args):
            return func(*args, **kwargs or {})
        with _disable_current_modes():
            known = func(*args, **kwargs or {})
        return torch.tensor(known.item(), dtype=known.dtype)


class UnseenDraws:
    """Random numbers drawn since it was made that torch doesn't know of: with which modules, if any.

    What such a draw decides (a mask made by NumPy, a layer that Python's `random` skips) is traced as what it happened
    to be.
    """

    def __init__(self) -> None:
        self.before = random.getstate(), np.random.get_state()

    def sources(self) -> list[str]:
        """Names of the modules."""
        python, numpy = self.before
        same = all(np.array_equal(a, b) for a, b in zip(numpy, np.random.get_state(), strict=True))
        sampled = {"Python's random": random.getstate() != python, "numpy.random": not same}
        return [name for name, has_drawn in sampled.items() if has_drawn]

    def refuse(self) -> NoReturn:
        """Raise `ConversionError`: the draws decide what is computed."""
        raise ConversionError(
            f"the model draws random numbers with {' and '.join(self.sources())}, and they would be the same in every "
            "run of the program\n  what to do: draw them with torch in forward, pass them as inputs, or switch them off"
        )


@contextlib.contextmanager
def extreme_draws(least: bool) -> Iterator[None]:
    """Within the context, Python's `random` draws the least number it can, or the greatest.

    What a draw may skip is skipped with the one and not with the other.
    """
    of_one, between = random.random, random.uniform
    random.random = lambda: 0.0 if least else math.nextafter(1.0, 0.0)
    random.uniform = lambda a, b: a if least else b
    try:
        yield
    finally:
        random.random, random.uniform = of_one, between


@contextlib.contextmanager
def known_settings(root: torch.nn.Module) -> Iterator[None]:
    """Within the context, integers that modules keep as buffers outside of their state dict are known numbers.

    A stride or a kernel size held so is a setting. As a tensor of unknown value it would make every size that is
    computed of it depend on the data. So are the switches of torch's fake quantization.

    Raises:
        ConversionError: a fake quantization observes what it is given, and decides by what it has seen.
    """
    _require_no_observers(root)
    classes = {module: type(module) for module in root.modules()}
    held: list[tuple[torch.nn.Module, dict[str, torch.Tensor | None]]] = []
    try:
        for module, kind in classes.items():
            settings = {name: buffer for name, buffer in module._buffers.items() if _is_setting(module, name, buffer)}
            if isinstance(module, FakeQuantize):
                settings |= {name: module._buffers[name] for name in SWITCHES}
            if settings:
                held.append((module, dict(module._buffers)))
                module.__class__ = type(kind.__name__, (kind,), _attributes(module, settings))
                for name in settings:
                    del module._buffers[name]
        yield
    finally:
        for module, buffers in held:
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
            f"the observer of {watching[0]}{others} is enabled: it changes the scale by the values that it has seen, "
            "and a program can't follow\n  what to do: switch observers off once they have seen enough, "
            "module.apply(torch.ao.quantization.disable_observer)"
        )


def _attributes(module: torch.nn.Module, settings: dict[str, torch.Tensor | None]) -> dict[str, Any]:
    """What a class has in place of buffers."""
    found: dict[str, Any] = {name: _known(buffer) for name, buffer in settings.items()}
    if isinstance(module, FakeQuantize):  # a fused one, whose observer is off, computes the same
        found["forward"] = FakeQuantize.forward
    return found


def _is_setting(module: torch.nn.Module, name: str, buffer: torch.Tensor | None) -> bool:
    temporary = name in module._non_persistent_buffers_set
    return temporary and buffer is not None and buffer.ndim == 0 and buffer.dtype in (torch.int64, torch.int32)


def _known(buffer: torch.Tensor | None) -> property:
    assert buffer is not None
    if buffer.ndim:
        numbers = buffer.tolist()
        return property(lambda module: numbers)
    number, dtype = buffer.item(), buffer.dtype
    return property(lambda module: torch.tensor(number, dtype=dtype))
