"""`PerThread`: an attribute of a shared object that has a value of its own in each thread."""

from __future__ import annotations

import threading
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class _Values(threading.local):
    """The value of one attribute of one object in each thread."""

    def __init__(self, default: Any) -> None:  # is called once in each thread
        self.value = default


class PerThread(Generic[T]):
    """A descriptor for state of a thread's computation that belongs to a shared object, such as a Parameter's tape.

    The values are in the object's `__dict__`, under the name of the attribute. They aren't copied or pickled: classes
    leave the attribute out.

    Args:
        default: the value in a thread that hasn't assigned one.
    """

    def __init__(self, default: T) -> None:
        self._default = default
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> PerThread[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> PerThread[T] | T:
        if instance is None:
            return self
        values = instance.__dict__.get(self._name)
        if values is None:
            return self._default
        result: T = values.value
        return result

    def __set__(self, instance: object, value: T) -> None:
        values = instance.__dict__.get(self._name)
        if values is None:
            if value is self._default:
                return
            values = instance.__dict__.setdefault(self._name, _Values(self._default))
        values.value = value
