"""Errors for a model that `torch.export` refuses: what it refused, where, and what to change."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import reprlib
import traceback
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from ...runtime.errors import CellbridgeError, ConversionError, UsageError
from .copying import copy_module
from .holders import preserve_state
from .places import innermost, source_of

MAX_LINE_LENGTH = 400  # torch's messages may describe a tensor in thousands of characters

_DATA_DEPENDENT = (
    "the model's Python code branches on the value of a tensor, which a program can't follow: compute both branches "
    "and choose with torch.where, or move the decision out of forward"
)
_PYTHON_NUMBER = (
    "the model converts a tensor's element to a Python number (float(x), int(x), math.sqrt(x)), which a "
    "program can't follow: compute with the tensor itself; where an integer is needed as a size, "
    "write x.to(torch.int64).item() "
    "and state its range with torch._check"
)
_PYTHON_INTEGER = (
    "the model converts a tensor's element to a Python integer (int(n), range(n), [0] * n), which a program can't "
    "follow: as a size, write n.item() (x[: n.item()], torch.arange(n.item())); instead of a loop, compute all and "
    "choose with a mask (torch.where, y[mask] = values); instead of a list of that length, make a tensor"
)
_SIZES_ALIKE = (
    "two sizes that depend on data must be equal here, which torch.export doesn't know: state this before, "
    "by torch._check(a.shape[0] == b.shape[0]), or choose from both tensors by one mask that is computed once"
)
_GRADIENT = (
    "the model takes a gradient in forward, which torch.export can't trace: return the value itself, and take the "
    "gradient of the program (`program.value_and_grad(...)`); to train with it (for example in a gradient penalty), "
    "take it in a Cell around the program (`runtime.nn.GraphCell(program)`, `runtime.grad(...)`), and compile a step "
    "of that"
)
_ADVICE = (
    (
        re.compile(r"\.numpy\(\) is not supported|__array__|can't convert .* to numpy", re.IGNORECASE),
        "NumPy computes outside of torch, and a program can't follow: use torch's operators in forward",
    ),
    (re.compile(r"expression z?uf\d+ "), _PYTHON_NUMBER),
    (
        re.compile(r"PackedSequence|type must be tuple of ints,but got FakeTensor"),
        "a packed sequence has a size that depends on the values of the lengths: run the recurrent layer on the padded "
        "sequence and mask what comes after each length",
    ),
    (
        re.compile(r"differentiated Tensor|functorch tensor|TensorWrapper|pointer of Tensor that doesn't have storage"),
        _GRADIENT,
    ),
    (
        re.compile(r"attempting to expand a dimension.*copy__default", re.DOTALL),
        "forward replaces a buffer by one of another shape: call the module once before it is converted, so that its "
        "buffer already has that shape",
    ),
    (
        re.compile(r"classes\.quantized"),
        "quantized modules have no tensors that a program could contain: pass the model that was quantized",
    ),
    (
        re.compile(r"fake tensor in the exported program constant's list"),
        _GRADIENT,
    ),
    (re.compile(r"Could not extract specialized integer from data-dependent"), _PYTHON_INTEGER),
    (re.compile(r"data-dependent expression (Eq|Ne)\(u\d+, u\d+\)"), _SIZES_ALIKE),
    (
        re.compile(r"data-dependent|GuardOnDataDependentSymNode|Eq\(u\d+|u\d+", re.IGNORECASE),
        _DATA_DEPENDENT,
    ),
    (
        re.compile(r"[Cc]onstraints? violated|dynamic_shapes|mark_dynamic|specialized"),
        "dynamic_shapes doesn't fit the model: fix the dimension, or change the range as torch suggests above",
    ),
)


_NESTED = (
    "nested tensors (torch.nested) can't be converted: each of their rows has a length of its own, and a program's "
    "tensors have one size along each axis"
)
_NESTED_ADVICE = (
    "\n  what to do: compute with the padded tensor and a mask instead: x.to_padded_tensor(0.0) before the model is "
    "called, or torch.nn.utils.rnn.pad_sequence(rows, batch_first=True), and torch.where(mask, y, 0.0) where padding "
    "could enter a result"
)


@contextlib.contextmanager
def silence_torch_logs() -> Iterator[None]:
    """Within the context, torch neither prints nor logs the graph of a model that it refuses: the error is enough.

    Its structured trace is left alone where somebody asks for it (TORCH_TRACE). Otherwise pytest would show dozens of
    its empty records below a failing test.
    """
    from torch.export import _trace as tracing  # seconds to import, and not needed to compare files

    names = ["torch.fx.experimental.symbolic_shapes", "torch._subclasses.fake_tensor"]
    if not os.environ.get("TORCH_TRACE"):
        names.append("torch.__trace")
    logs = [logging.getLogger(name) for name in names]
    levels = [log.level for log in logs]
    tracing.print = lambda *args, **options: None  # type: ignore[attr-defined]
    for log in logs:
        log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        vars(tracing).pop("print", None)
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)


@contextlib.contextmanager
def explain_errors(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[None]:
    """Turn an exception of `torch.export` within the context into a `ConversionError`.

    If the module itself fails on the inputs, too, it becomes a `UsageError`.
    """
    try:
        yield
    except (CellbridgeError, KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except Exception as error:
        raise_if_eager_fails(module, args, kwargs)
        message = str(error).strip()
        if _is_about_nested_tensors(error):
            line = _frame(error)
            raise ConversionError(_NESTED + (f"\n  at {line}" if line else "") + _NESTED_ADVICE) from error
        advice = next((text for pattern, text in _ADVICE if pattern.search(message)), None)
        # for a data-dependent decision torch adds many lines that only its developers need
        summary = _first_lines(
            message, 1 if advice in (_DATA_DEPENDENT, _PYTHON_NUMBER, _PYTHON_INTEGER, _SIZES_ALIKE) else 12
        )
        lines = [f"torch.export refuses the model: {type(error).__name__}: {summary}"]
        line = _frame(error) or _frame_in_message(message)
        if line:
            lines.append(f"  at {line}")
        if advice:
            lines.append(f"  what to do: {advice}")
        raise ConversionError("\n".join(lines)) from error


def _is_about_nested_tensors(error: Exception) -> bool:
    """Whether torch refuses a nested tensor: its messages may speak of sizes alone, where its own code fails."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = any("/torch/nested/" in frame.filename.replace(os.sep, "/") for frame in frames)
    return inside or re.search(r"nested_tensor|NestedTensor|NestedInt", str(error)) is not None


def raise_if_eager_fails(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise `UsageError` if the module itself doesn't run on the inputs; modules that can't be copied aren't tested."""
    try:
        alone = copy_module(module)
    except UsageError:
        return
    torch.compiler.reset()  # torch's cache of a traced torch.cond doesn't run
    try:
        with preserve_state(module), torch.enable_grad():  # as in tracing: the model may compute gradients itself
            alone(*args, **kwargs)
    except Exception as error:
        raise eager_error(error, alone, args, kwargs) from error


def parameter_change_error(name: str, change: torch.fx.Node) -> ConversionError:
    """The error for a parameter that forward changes in place; `change` is the node that computes its last value."""
    last = name.rpartition(".")[2]
    attribute = last if last.isidentifier() else "weight"
    return ConversionError(
        f"the model changes {name!r}, a parameter, in place; only an optimizer changes those of a program\n"
        f"  at {source_of(change)}\n"
        f"  what to do: compute with a changed copy of the parameter: {attribute} = torch.where(mask, "
        f"value, self.{attribute}) or self.{attribute}.masked_fill(mask, value); "
        "or change it before the model is called (where it "
        "is created, after a step of the optimizer); where only the first call changes it, call the model once "
        "before it is converted"
    )


def require_ready(module: torch.nn.Module) -> None:
    """Raise `UsageError` for a module whose parameters have no shape yet."""
    lazy = [n for n, x in module.named_parameters() if torch.nn.parameter.is_lazy(x)]
    if lazy:
        raise UsageError(
            f"parameters have no shape yet: {', '.join(lazy)}\n"
            "  what to do: call the model once on its inputs, so that its lazy modules create them"
        )


def eager_error(
    error: Exception, module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> UsageError:
    """The error for a module that raised `error` when torch ran it."""
    line, cell = _frame(error), _running_cell(error, module)
    return UsageError(
        f"the model doesn't run on its inputs ({_describe_arguments(args, kwargs)}): "
        f"{type(error).__name__}: {_first_lines(str(error))}"
        + (f"\n  in Cell {cell}" if cell else "")
        + (f"\n  at {line}" if line else "")
    )


def _describe_arguments(args: Iterable[Any], kwargs: Mapping[Any, Any]) -> str:
    return ", ".join([*map(_describe, args), *(f"{name}={_describe(x)}" for name, x in kwargs.items())])


def _describe(x: Any) -> str:
    if isinstance(x, torch.Tensor):
        return f"{str(x.dtype).removeprefix('torch.')}{list(x.shape)}"
    if isinstance(x, np.ndarray):
        return f"NumPy array {x.dtype}{list(x.shape)}"
    if isinstance(x, Mapping):
        return f"{{{_describe_arguments((), x)}}}"
    return f"[{_describe_arguments(x, {})}]" if isinstance(x, (tuple, list)) else reprlib.repr(x)


def require_harmless_keys(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Raise `ConversionError` for keys of inputs that could end the string literal in which torch.export puts them.

    Keys may come from a file: the inputs may be those of a program that was read.
    """
    for path, _ in pytree.tree_flatten_with_path((args, kwargs))[0]:
        for key in (getattr(part, "key", None) for part in path):
            texts = key if isinstance(key, tuple) else (key,)
            if any(isinstance(text, str) and (repr(text) != f"'{text}'" or '"' in text) for text in texts):
                raise ConversionError(
                    f"torch.export can't take the input {key!r}: it writes names of inputs into source code, in which "
                    "quotes, backslashes and line breaks have a special meaning\n"
                    "  what to do: rename the input or its dict key so that it contains none of them"
                )


def _running_cell(error: Exception, module: torch.nn.Module) -> str | None:
    """Path and class of the innermost Cell that raised `error`, with the settings of a torch layer."""
    paths = {inner: path for path, inner in module.named_modules()}
    selves = [frame.f_locals.get("self") for frame, _ in traceback.walk_tb(error.__traceback__)]
    inner = next((x for x in reversed(selves) if isinstance(x, torch.nn.Module) and x in paths), None)
    if inner is None:
        return None
    settings = inner.extra_repr() if type(inner).__module__.startswith("torch.nn.") else ""
    return f"{paths[inner] or '(root)'}, {type(inner).__name__}" + (f"({settings})" if settings else "")


def _first_lines(message: str, count: int = 4) -> str:
    lines = [line.rstrip() for line in message.splitlines() if line.strip()]
    lines = [line if len(line) <= MAX_LINE_LENGTH else f"{line[:MAX_LINE_LENGTH]} ..." for line in lines]
    return "\n  ".join(lines[:count])


def _frame(error: BaseException) -> str | None:
    """The innermost frame of the traceback in the user's code, else in a library other than torch."""
    frames = [(f.filename, f.lineno, f.line) for f in traceback.extract_tb(error.__traceback__)]
    return innermost(frames)


def _frame_in_message(message: str) -> str | None:
    frames = re.findall(r'File "([^"]+)", line (\d+), in [^\n]*\n\s*([^\n]*)', message)
    return innermost(frames)
