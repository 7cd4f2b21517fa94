"""Another method for a torch module or a Cell, as long as a context lasts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def replaced_method(owner: object, name: str, method: Callable[..., Any]) -> Iterator[None]:
    """Within the context, one object has another method; its attributes and hooks stay.

    Args:
        owner: the object, such as a module whose `forward`, or a Cell whose `construct` is replaced.
        name: the name of the method.
        method: called without the object, unless it is bound.
    """
    attributes = vars(owner)
    before = attributes.get(name)
    attributes[name] = method
    try:
        yield
    finally:
        if before is None:
            del attributes[name]
        else:
            attributes[name] = before
