"""Train and eval mode: of a whole module, or each part in a mode of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def in_mode(module: torch.nn.Module, train: bool) -> Iterator[None]:
    """Within the context, a module is in train or in eval mode; afterwards each part is in the mode it was in.

    Eval mode is that of all parts. Train mode is, too, unless some parts are in train mode already and others aren't:
    then each keeps its own, as a batch norm that was put into eval mode is meant to stay there (frozen statistics).
    """
    modes = {part: part.training for part in module.modules()}
    try:
        if not train or len({*modes.values()}) == 1:
            module.train(train)
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode


def kept_in_eval_mode(module: torch.nn.Module) -> list[str]:
    """Paths of the parts that stay in eval mode where the module is in train mode; not those inside such a part."""
    with in_mode(module, True):
        kept = {path for path, part in module.named_modules() if not any(inner.training for inner in part.modules())}
        alone = {path for path, part in module.named_modules() if not part.training} - kept
    outermost = {path for path in kept if path == "" or not ({*_above(path)} & kept)}
    return [path or "(root)" for path, _ in module.named_modules() if path in outermost | alone]


def _above(path: str) -> Iterator[str]:
    """The paths of the parts that one is in."""
    yield ""
    names = path.split(".")
    for count in range(1, len(names)):
        yield ".".join(names[:count])
