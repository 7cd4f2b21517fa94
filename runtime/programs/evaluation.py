"""`Evaluation`: the evaluation of a program node by node; a subclass defines how a node is applied.

The same algorithm serves arrays, eager tensors and values of a program under construction: look up the operands,
replace symbols by sizes, keep results as long as they are needed, and learn new sizes from them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from ..ir.dims import Dim, substitute_nested
from ..ir.types import Value
from .plan import Step


class Evaluation(ABC):
    """The values of a partly evaluated program.

    Args:
        values: by value, the program's inputs, parameters, buffers and constants.
        sizes: by symbol, the sizes in the shapes of the inputs.
    """

    def __init__(self, values: dict[Value, Any], sizes: Mapping[str, Dim]) -> None:
        self.values = values
        self.sizes = dict(sizes)

    @abstractmethod
    def apply(self, step: Step, operands: list[Any]) -> Any:
        """Return the output (a tuple for several) of the step's op on operands; None is an absent operand."""

    def operand(self, value: Value, step: Step) -> Any:
        """Return a value as an operand of a step."""
        return self.values[value]

    def new_sizes(self, step: Step, results: tuple[Any, ...]) -> dict[str, Dim]:
        """Return the sizes of the symbols that the results of a step determine."""
        return {reading.symbol: reading.size(results) for reading in step.readings}

    def attributes(self, step: Step) -> dict[str, Any]:
        """Return the attributes of the step's node, with sizes in place of symbols."""
        attributes = step.node.attributes
        if not step.symbolic:
            return dict(attributes)
        return {name: substitute_nested(item, self.sizes) for name, item in attributes.items()}

    def compute(self, step: Step) -> None:
        """Apply a step, keep its results, and forget the values that no later step needs."""
        operands = [None if value is None else self.operand(value, step) for value in step.node.inputs]
        output = self.apply(step, operands)
        results = output if isinstance(output, tuple) else (output,)
        if step.readings:
            self.sizes.update(self.new_sizes(step, results))
        self.values.update(zip(step.node.outputs, results, strict=True))
        self.forget(step)

    def forget(self, step: Step) -> None:
        """Forget the values whose last use is this step."""
        for value in step.last_uses:
            self.values.pop(value, None)

    def run(self, steps: Iterable[Step]) -> None:
        """Apply steps in order."""
        for step in steps:
            self.compute(step)
