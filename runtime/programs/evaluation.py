"""`Evaluation`: a program evaluated node by node; a subclass says what a node is applied by.

Arrays, eager tensors and values of a program under construction are evaluated alike: operands are looked up, sizes take
the place of symbols, results are kept as long as they are needed, and tell the sizes that weren't known before.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from ..ir.dims import Dim, substituted
from ..ir.types import Value
from .plan import Step


class Evaluation(ABC):
    """The values of a program as far as it has been evaluated.

    Args:
        values: of the program's inputs and of what it stores.
        sizes: of the symbols in the shapes of the inputs.
    """

    def __init__(self, values: dict[Value, Any], sizes: Mapping[str, Dim]) -> None:
        self.values = values
        self.sizes = dict(sizes)

    @abstractmethod
    def apply(self, step: Step, operands: list[Any]) -> Any:
        """The output of the step's op (a tuple of several) on operands; None stands for an absent one."""

    def operand(self, value: Value, step: Step) -> Any:
        """The value as an operand of a step."""
        return self.values[value]

    def new_sizes(self, step: Step, results: tuple[Any, ...]) -> dict[str, Dim]:
        """The sizes of the symbols that are known once the step has given `results`."""
        return {reading.symbol: reading.size(results) for reading in step.readings}

    def attributes(self, step: Step) -> dict[str, Any]:
        """Attributes of the step's node, with sizes in place of symbols."""
        attributes = step.node.attributes
        if not step.symbolic:
            return dict(attributes)
        return {name: substituted(item, self.sizes) for name, item in attributes.items()}

    def compute(self, step: Step) -> None:
        """Apply a step, keep what it gives, and forget what no later step needs."""
        operands = [None if value is None else self.operand(value, step) for value in step.node.inputs]
        applied = self.apply(step, operands)
        results = applied if isinstance(applied, tuple) else (applied,)
        if step.readings:
            self.sizes.update(self.new_sizes(step, results))
        self.values.update(zip(step.node.outputs, results, strict=True))
        self.forget(step)

    def forget(self, step: Step) -> None:
        """Forget the values that the step is the last to use."""
        for value in step.last_uses:
            self.values.pop(value, None)

    def run(self, steps: Iterable[Step]) -> None:
        """Apply steps in order."""
        for step in steps:
            self.compute(step)
