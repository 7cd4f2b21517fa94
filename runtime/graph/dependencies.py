"""`Dependencies`: what a traced program takes for granted, beside its arguments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..common.hooks import has_gradient_hooks
from ..common.parameter import Parameter
from ..precision import current_setting
from .objects import Objects


class Dependencies:
    """What Python read while it was traced, as it is now.

    Args:
        objects: the objects that it met.
        parameters: the Parameters that it met. Their values aren't fixed in the program; flags, dtype and shape are.
    """

    def __init__(self, objects: Objects, parameters: Iterable[Parameter]) -> None:
        self._objects = objects
        self._parameters = [(parameter, _kind(parameter)) for parameter in parameters]
        self._precision = current_setting()

    def hold(self) -> bool:
        """Whether all of it is as it was: traced once more, Python would give the same program."""
        return (
            self._precision == current_setting()
            and all(_kind(parameter) == kind for parameter, kind in self._parameters)
            and self._objects.are_the_same()
        )


def _kind(parameter: Parameter) -> tuple[Any, ...]:
    array = parameter._array
    return parameter.requires_grad, array.dtype, array.shape, has_gradient_hooks(parameter)
