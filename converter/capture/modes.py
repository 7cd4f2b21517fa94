"""Train and eval mode, of a whole module or of each submodule."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def in_mode(module: torch.nn.Module, train: bool) -> Iterator[None]:
    """Within the context, a module is in train or eval mode; afterwards each submodule has its former mode.

    Eval mode applies to all submodules. Train mode does, too, unless some are in train mode already and others aren't:
    then each keeps its mode, since a batch norm in eval mode is meant to stay there (frozen statistics).
    """
    modes = {part: part.training for part in module.modules()}
    try:
        if not train or len({*modes.values()}) == 1:
            module.train(train)
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode


def modules_in_eval_mode(module: torch.nn.Module) -> list[str]:
    """Paths of the outermost submodules in eval mode within a module in train mode."""
    with in_mode(module, True):
        kept = {path for path, part in module.named_modules() if not any(inner.training for inner in part.modules())}
        alone = {path for path, part in module.named_modules() if not part.training} - kept
    outermost = {path for path in kept if path == "" or not ({*_above(path)} & kept)}
    return [path or "(root)" for path, _ in module.named_modules() if path in outermost | alone]


def _above(path: str) -> Iterator[str]:
    """The paths of the submodules that contain `path`."""
    yield ""
    names = path.split(".")
    for count in range(1, len(names)):
        yield ".".join(names[:count])
