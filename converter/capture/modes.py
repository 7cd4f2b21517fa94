"""Train and eval mode, of a whole module or of each submodule."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def in_mode(module: torch.nn.Module, train: bool | None) -> Iterator[None]:
    """Within the context, a module is in train or eval mode; afterwards each submodule has its former mode.

    True and None keep the modes of a module in which some parts are in train mode and others aren't: a batch norm in
    eval mode is meant to stay there (frozen statistics), and one that was left in train mode is so in deployment, too.
    A module of one mode throughout is put into train mode by True, and into eval mode by None. False puts all parts
    into eval mode.
    """
    modes = {part: part.training for part in module.modules()}
    try:
        if train is False or len({*modes.values()}) == 1:
            module.train(bool(train))
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode


def is_training_in_part(module: torch.nn.Module) -> bool:
    """Whether a module is in train mode, but for some of its parts."""
    return module.training and not all(part.training for part in module.modules())


def parts_in_other_mode(module: torch.nn.Module, train: bool | None) -> list[str]:
    """Paths of the outermost submodules that `in_mode` keeps in another mode than it puts the module into."""
    other = not train
    with in_mode(module, train):
        whole = {path for path, part in module.named_modules() if all(m.training == other for m in part.modules())}
        alone = {path for path, part in module.named_modules() if part.training == other} - whole
    outermost = {path for path in whole if path == "" or not ({*_above(path)} & whole)}
    return [path or "(root)" for path, _ in module.named_modules() if path in outermost | alone]


def _above(path: str) -> Iterator[str]:
    """The paths of the submodules that contain `path`."""
    yield ""
    names = path.split(".")
    for count in range(1, len(names)):
        yield ".".join(names[:count])
