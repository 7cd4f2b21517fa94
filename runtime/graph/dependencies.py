"""`Dependencies`: the state outside of its arguments that a traced program relies on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..common.hooks import has_gradient_hooks
from ..common.parameter import Parameter
from ..precision import current_setting
from .objects import Objects


class Dependencies:
    """A snapshot of the state that Python read while it was traced.

    Args:
        objects: the objects that it used.
        parameters: the Parameters that it used. The program fixes their flags, dtypes and shapes, not their values.
    """

    def __init__(self, objects: Objects, parameters: Iterable[Parameter]) -> None:
        self._objects = objects
        self._parameters = [(parameter, _kind(parameter)) for parameter in parameters]
        self._precision = current_setting()

    def are_unchanged(self) -> bool:
        """Whether nothing has changed, so that tracing again would produce the same program."""
        return (
            self._precision == current_setting()
            and all(_kind(parameter) == kind for parameter, kind in self._parameters)
            and self._objects.are_unchanged()
        )


def _kind(parameter: Parameter) -> tuple[Any, ...]:
    array = parameter._array
    return parameter.requires_grad, array.dtype, array.shape, has_gradient_hooks(parameter)
