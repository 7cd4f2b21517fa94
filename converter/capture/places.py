"""Source lines: whether code is the user's, a library's, torch's or cellbridge's, and the line behind a graph node."""

from __future__ import annotations

import contextlib
import functools
import re
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import uninteresting_files
from torch.fx.proxy import TracerBase

from ...runtime.ir.types import Source

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<name>[^\n]*)\n\s*(?P<text>[^\n]*)')
_INSTALLED = ("/site-packages/", "/dist-packages/", f"{Path(torch.__file__).parents[1].as_posix()}/")
_NO_MODELS = ("torch/", "_pytest/", "sympy/")
_HERE = __file__.rsplit("converter", 1)[0]
WHOLE = "cellbridge_whole_operator"
"""Key in the `meta` of a node: the source of the operator that it was decomposed from."""
_INTERNAL = (f"{_HERE}converter", f"{_HERE}parity", f"{_HERE}runtime")


def is_user_code(filename: str) -> bool:
    """Whether a file may be the user's own code: a model's code that isn't installed."""
    return is_model_code(filename) and not _is_installed(filename)


def is_model_code(filename: str) -> bool:
    """Whether a file may be a model's code: it isn't torch's, Python's or cellbridge's."""
    return (
        "<" not in filename
        and not filename.startswith(_INTERNAL)
        and not any(folder + library in filename for folder in _INSTALLED for library in _NO_MODELS)
        and ("/lib/python" not in filename or _is_installed(filename))
    )


def calling_line() -> str:
    """The line of the user's code (or else of a library) that is running."""
    frames = [(f.filename, f.lineno, f.line) for f in traceback.extract_stack()]
    return innermost(frames) or "a line that isn't in a file"


def innermost(frames: list[tuple[str, Any, Any]]) -> str | None:
    """The innermost of the frames (file, line, text) in the user's code, else in a library other than torch."""
    candidates = [f for f in frames if is_user_code(f[0])] or [f for f in frames if is_model_code(f[0])]
    return "{}:{}: {}".format(*candidates[-1]).rstrip() if candidates else None


def _is_installed(filename: str) -> bool:
    return any(folder in filename for folder in _INSTALLED)


@contextlib.contextmanager
def lines_of_functions() -> Iterator[None]:
    """Within the context, torch keeps the lines of all functions of a model, not only of those named `forward`.

    What a function computes that a `forward` calls would else have the line of that call.
    """
    kept = TracerBase._filter_traceback_frames
    TracerBase._filter_traceback_frames = _model_frames  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        TracerBase._filter_traceback_frames = kept  # type: ignore[method-assign]


def _model_frames(_: TracerBase, frames: traceback.StackSummary) -> traceback.StackSummary:
    others = uninteresting_files()
    first = next((n for n, f in enumerate(frames) if f.name == "forward" and f.filename not in others), len(frames))
    running = [f for f in frames[first:] if f.filename not in others]
    return traceback.StackSummary.from_list([f for f in running if f.name == "forward" or _is_of_model(f.filename)])


_is_of_model = functools.cache(is_model_code)


def source_of(node: fx.Node) -> Source:
    """The line that the node comes from: the innermost one of the module that computes it.

    In the module's `forward` and what that calls, lines of the user's own files go before those of libraries. Lines of
    torch are the last choice.
    """
    if WHOLE in node.meta:
        return node.meta[WHOLE]  # type: ignore[no-any-return]
    frames = list(_FRAME.finditer(node.meta.get("stack_trace") or ""))
    frames = [f for f in frames if not f["file"].startswith("<eval_with_key>")]  # written by torch while it traced
    settings = _settings_of(node)
    if not frames:
        return Source("", 0, "", str(node.target), settings)
    of_model = [f for f in frames if is_model_code(f["file"])] or frames
    start = max((n for n, f in enumerate(of_model) if f["name"] == "forward"), default=0)
    user_frames = [f for f in of_model[start:] if not _is_installed(f["file"])]
    innermost = (user_frames or of_model[start:])[-1]
    return Source(innermost["file"], int(innermost["line"]), innermost["text"].strip(), str(node.target), settings)


def note_whole_operators(before: Iterable[fx.Node], after: Iterable[fx.Node]) -> None:
    """Give nodes that a decomposition made of an operator the operator's own source, with its settings.

    Args:
        before: the nodes of a graph.
        after: those of the decomposed graph; each names the node that it comes from.
    """
    whole = {(node.name, str(node.target)): node for node in before}
    parts: dict[fx.Node, list[fx.Node]] = {}
    for node in after:
        origin = next(iter(node.meta.get("from_node") or ()), None)
        operator = None if origin is None else whole.get((origin.name, str(origin.target)))
        if operator is not None and str(node.target) != str(operator.target):
            parts.setdefault(operator, []).append(node)
    for operator, nodes in parts.items():
        if len(nodes) > 1:
            source = source_of(operator)
            for node in nodes:
                node.meta[WHOLE] = source


def _settings_of(node: fx.Node) -> tuple[tuple[str, Any], ...]:
    """The arguments of an operator that aren't tensors, by the names of its schema, with its defaults."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return ()
    settings = []
    for position, argument in enumerate(node.target._schema.arguments):
        value = (
            node.args[position] if position < len(node.args) else node.kwargs.get(argument.name, argument.default_value)
        )
        if "Tensor" not in str(argument.type) and not _has_node(value):
            settings.append((str(argument.name), tuple(value) if isinstance(value, (list, tuple)) else value))
    return tuple(settings)


def _has_node(value: Any) -> bool:
    return isinstance(value, fx.Node) or (isinstance(value, (list, tuple)) and any(map(_has_node, value)))
