"""A file's program, rewritten to have the tensors of a module as they are, so that they can have places there."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ...runtime.ir.program import Program
from ...runtime.ir.types import Value
from ..sides.records import Array
from .crossings import Crossing
from .divided_products import divide_products
from .file_values import FileValues
from .flat import FlatProgram
from .joined_values import Joined, JoinFinder, with_joined
from .views import View, ViewFinder, used_views, with_views


@dataclass(frozen=True)
class Fitted:
    """A program with all tensors of a module that it may have.

    Attributes:
        before: the program as it is.
        file: its values, with those of the tensors.
        joined: the tensors that it has in parts.
        views: those that it has in other layouts.
    """

    before: Program
    file: FileValues
    joined: Sequence[Joined]
    views: Sequence[View]

    def with_places(self, places: Collection[Value]) -> FlatProgram:
        """Return the program with the tensors that have places, each computed by itself where that is possible."""
        joined = [tensor for tensor in self.joined if not {tensor.tensor, *tensor.restored}.isdisjoint(places)]
        program = with_views(with_joined(self.before, joined), used_views(self.views, places))
        return FlatProgram(divide_products(program, places))


def fit(flat: FlatProgram, samples: Sequence[Sequence[Array]], tensors: Sequence[Crossing]) -> Fitted:
    """Look for the tensors of a module in the values of a program, in other layouts and in parts.

    Args:
        flat: the program.
        samples: its inputs, once or several times with other numbers.
        tensors: the tensors that cross the module's boundaries, with as many samples.
    """
    file = FileValues(flat, samples)
    finder = ViewFinder(file)
    missing = finder.find(tensors)
    parts = JoinFinder(file, finder.of_shape)
    in_parts = {tensor: whole for tensor in missing if (whole := parts.find(tensor)) is not None}
    finder.suppose([tensor for tensor in missing if tensor not in in_parts])
    joined, views = list(in_parts.values()), list(finder.views.values())
    before = flat.program
    if joined or views:
        file = FileValues(FlatProgram(with_views(with_joined(before, joined), views)), samples)
    return Fitted(before, file, joined, views)
