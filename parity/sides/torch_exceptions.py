"""Exceptions of a torch module's Cells in an isolated run: each is recorded, and the run goes on."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Collection, Iterator
from typing import Any

import torch

from ...converter.structure.program_names import named_modules
from ...runtime.errors import CellbridgeError
from .torch_recorder import Recorder


@contextlib.contextmanager
def catch_exceptions(root: torch.nn.Module, recorder: Recorder, only: Collection[str] | None = None) -> Iterator[None]:
    """Within the context, a Cell inside `root` (of the paths in `only`) that raises returns the reference's outputs."""
    with contextlib.ExitStack() as stack:
        for path, _, module in named_modules(root):
            if path and (only is None or path in only) and not isinstance(module, torch.jit.ScriptModule):
                stack.enter_context(_caught(module, recorder))
        yield


@contextlib.contextmanager
def _caught(module: Any, recorder: Recorder) -> Iterator[None]:
    forward, own = module.forward, vars(module).get("forward")

    @functools.wraps(forward)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return forward(*args, **kwargs)
        except CellbridgeError:
            raise
        except Exception as error:  # any exception of the user's code is a finding
            recorder.note_exception(error)
            outputs = recorder.reference_outputs(module)
            if outputs is None:
                raise
            return outputs

    vars(module)["forward"] = guarded
    try:
        yield
    finally:
        if own is None:
            del vars(module)["forward"]
        else:
            vars(module)["forward"] = own
