"""Random numbers of a compiled program that a model of its own draws, into the tensors that the program reads."""

from __future__ import annotations

from collections.abc import Mapping

import onnxruntime as ort

from ..compiled.executable import Executable
from ..ir.program import Program, part_of
from ..ir.types import Node
from ..programs.random_inputs import random_nodes


def independent_draws(program: Program) -> list[Node]:
    """The nodes that draw random numbers of known size without an operand, such as the masks of dropout."""
    return [node for node in random_nodes(program) if not node.inputs and node.outputs[0].type.sizes is not None]


class Draws:
    """Draws random numbers on the device, anew in each run.

    A CUDA graph would repeat the random numbers of its first run, so that they are inputs of what is recorded as one.

    Args:
        program: the program.
        places: for each of some of its `independent_draws` the tensor on the device to write to.
        provider: name of the execution provider (`runtime.providers`).
    """

    def __init__(self, program: Program, places: Mapping[Node, ort.OrtValue], provider: str) -> None:
        self._binding: ort.IOBinding | None = None
        if not places:
            return
        values = tuple(node.outputs[0] for node in places)
        self._executable = Executable(part_of(program, tuple(places), (), values), values, provider=provider)
        self._binding = self._executable.session.ort.io_binding()
        for name, buffer in zip(self._executable.outputs, places.values(), strict=True):
            self._binding.bind_ortvalue_output(name, buffer)

    def run(self) -> None:
        """Draw once."""
        if self._binding is not None:
            self._executable.session.ort.run_with_iobinding(self._binding)
