"""Modes and devices: how and where Cells run."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable
from typing import Any, Protocol

from . import checks
from .common import tape
from .current_trace import current
from .lazy import resolve
from .precision import is_forced


class GraphMode(Protocol):
    """The interface of `graph.compiling`, which runs Cells and gradient functions in graph mode."""

    def in_graph_mode(
        self, owner: Any, variant: Hashable, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Any
    ) -> Any:
        """Call a compiled function; its programs are cached with `owner`, one set per `variant`."""

    def declared_inputs(self, cell: Any, inputs: Any) -> Any:
        """Check the inputs that `Cell.set_inputs` declares and return them."""

    def trace_declared(self, cell: Any, declared: Any) -> None:
        """Compile a Cell for the inputs that it declares."""


GRAPH_MODE = 0
PYNATIVE_MODE = 1

_DEVICES = ("CPU", "GPU", "Ascend")
_settings: dict[str, Any] = {"mode": PYNATIVE_MODE, "device_target": "CPU", "device_id": 0}

# Settings that scripts pass, without effect here: there is one device; kernels are deterministic and synchronous.
_WITHOUT_EFFECT: dict[str, type | tuple[type, ...]] = {
    "deterministic": str,
    "max_call_depth": int,
    "pynative_synchronize": bool,
    "save_graphs": (bool, int),
    "save_graphs_path": str,
}


def set_context(**kwargs: Any) -> None:
    """Choose how and where Cells run.

    Args:
        mode: `PYNATIVE_MODE`, the default: Cells run as ordinary Python. `GRAPH_MODE`: each call of a Cell or gradient
            function (`grad`, `value_and_grad`, `GradOperation`) is traced to a program, compiled, and run in ONNX
            Runtime, with all Cells inside it; see `jit`.
        device_target: "CPU". "GPU" and "Ascend" cause a warning and Cells run on the CPU, since many scripts begin
            with such a call. If you need the device, use `set_device`, which raises an error.
        device_id: a non-negative int; there is one device.
        kwargs: `deterministic`, `max_call_depth`, `pynative_synchronize`, `save_graphs` and `save_graphs_path` are
            accepted without effect; so is any other name, with a warning.

    Raises:
        ValueError: a value is unknown.
        TypeError: a value has the wrong type.
    """
    unknown = [name for name in kwargs if name not in _settings and name not in _WITHOUT_EFFECT]
    settings = {name: value for name, value in kwargs.items() if name not in unknown}
    for name, value in settings.items():
        _check(name, value)
    if unknown:
        warnings.warn(
            f"For 'set_context', {', '.join(map(repr, unknown))} has no effect here: the known settings are "
            f"{sorted({*_settings, *_WITHOUT_EFFECT})}",
            stacklevel=2,
        )
    if settings.get("device_target", "CPU") != "CPU":
        warnings.warn(
            f"For 'set_context', the device '{settings.pop('device_target')}' is not available: Cells run on 'CPU'",
            stacklevel=2,
        )
    _settings.update(settings)


def _check(name: str, value: Any) -> None:
    of = "set_context"
    if name == "mode":
        checks.of_type(value, name, int, of=of)
        checks.one_of(value, "mode (0: GRAPH_MODE, 1: PYNATIVE_MODE)", (GRAPH_MODE, PYNATIVE_MODE), of=of)
    elif name == "device_target":
        checks.one_of(value, name, _DEVICES, of=of)
    elif name == "device_id":
        checks.of_type(value, name, int, of=of)
        checks.in_range(value, name, "[0, inf)", of=of)
    else:
        checks.of_type(value, name, _WITHOUT_EFFECT[name], of=of)


def get_context(attr_key: str) -> Any:
    """Return the value that `set_context` set for a name; None for a setting without effect that wasn't set.

    Raises:
        ValueError: the name is unknown.
    """
    if attr_key not in _settings and attr_key not in _WITHOUT_EFFECT:
        raise ValueError(
            f"For 'get_context', the argument '{attr_key}' is unknown: needed one of "
            f"{sorted({*_settings, *_WITHOUT_EFFECT})}"
        )
    return _settings.get(attr_key)


def set_device(device_target: str, device_id: int | None = None) -> None:
    """Choose the device, as `set_context(device_target=..., device_id=...)` does, but fail if it isn't available.

    Raises:
        ValueError: the device is unknown.
        RuntimeError: the device isn't available.
    """
    checks.one_of(device_target, "device_target", _DEVICES, of="set_device")
    if device_target != "CPU":
        raise RuntimeError(f"For 'set_device', the device '{device_target}' is not available: Cells run on 'CPU'")
    set_context(device_target=device_target, device_id=0 if device_id is None else device_id)


def compiler() -> GraphMode | None:
    """Return graph mode if a Cell that is called now must be compiled, else None.

    A Cell isn't compiled in PyNative mode, during tracing, or under `force_dtype`. Neither is it compiled while it is
    differentiated, since the gradient function is compiled as a whole.
    """
    if _settings["mode"] != GRAPH_MODE or current() is not None or tape.current() is not None or is_forced():
        return None
    return graph_mode()


def graph_mode() -> GraphMode:
    """Return the implementation of graph mode, whatever the current mode is."""
    mode: GraphMode = resolve("graph mode")
    return mode


__all__ = [
    "GRAPH_MODE",
    "PYNATIVE_MODE",
    "compiler",
    "get_context",
    "graph_mode",
    "set_context",
    "set_device",
]
