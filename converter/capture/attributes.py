"""Attributes of modules that `forward` changes: what is captured is one call, and torch puts them back."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

import torch

PLAIN = (bool, int, float, str)


@contextlib.contextmanager
def changes_told(root: torch.nn.Module) -> Iterator[None]:
    """Within the context, a call of `root` that changes numbers or texts among modules' attributes is warned of.

    A counter of calls, say, is fixed in what is captured: a `UserWarning` names it.
    """
    before = {path: _plain(module) for path, module in root.named_modules()}

    changed: list[str] = []

    def compare(module: torch.nn.Module, args: Any, result: Any) -> None:
        for path, inner in root.named_modules():
            after = _plain(inner)
            for name, value in before.get(path, {}).items():
                if name in after and after[name] != value:
                    changed.append(f"{f'{path}.' if path else ''}{name} (from {value!r} to {after[name]!r})")

    handle = root.register_forward_hook(compare)
    try:
        yield
    finally:
        handle.remove()
    if changed:
        warnings.warn(
            f"forward changes attributes of modules, {', '.join(changed)}: the program is what the first call does",
            UserWarning,
            stacklevel=4,
        )


def _plain(module: torch.nn.Module) -> dict[str, Any]:
    return {name: value for name, value in vars(module).items() if isinstance(value, PLAIN)}
