"""`Executable`: values of a program, computed by one ONNX model in ONNX Runtime."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import UsageError
from ..ir.dims import SymbolicDim
from ..ir.program import Program
from ..ir.types import Value
from ..lowering import opsets
from ..lowering.model import Lowering, lower_program
from ..lowering.nodes import where
from ..lowering.passes.share import RANDOM
from ..lowering.rewrites import ON_CPU, rewrite
from ..lowering.writing import MODEL_LIMIT, add_initializers, size_of, write
from ..ops.random import RANDOM_OPS, generator
from ..programs.interpreter import bind
from ..programs.plan import plan
from .session import Session, chosen_provider

Array = np.ndarray[Any, Any]


class Executable:
    """A program, lowered and loaded.

    On the CPU, ops in float16 and bfloat16 compute in float32 and round once, as the interpreter's kernels do: ONNX
    Runtime has few kernels of those dtypes there.

    What it draws at random follows `set_seed` from the moment it is made, and is new in each run.

    Args:
        program: the program.
        wanted: the values to compute.
        handed_in: parameters and buffers whose data each run is given, beside the inputs; the others are in the model.
        provider: "cpu", "cuda", or None for the best that is here.

    Attributes:
        session: the session that runs it.
        inputs: name of each value that it takes: those of `program.inputs` and `handed_in` that are used.
        outputs: name of each of `wanted`.

    Raises:
        UnsupportedOperators: ops that have no ONNX form: all of them, with Cell path and source line.
        ConversionError: an op has no ONNX form with these attributes or symbolic sizes.
        UsageError: ONNX Runtime can't run the model, or the provider isn't available here.
    """

    def __init__(
        self, program: Program, wanted: Sequence[Value], handed_in: Sequence[Value] = (), provider: str | None = None
    ) -> None:
        provider = chosen_provider(provider)
        rules = ON_CPU if provider == "cpu" else ()
        lowering = lowered(functools.reduce(rewrite, rules, program), wanted, handed_in)
        self.session = _loaded(lowering, provider)
        taken = {value: lowering.tensors[value] for value in lowering.inputs}
        self.inputs = {value: name for value, name in taken.items() if name in self.session.inputs}
        self.outputs = [name for name, _ in lowering.results]
        self._program = program.without_data()  # the session has that
        self._batches = _batches_that_must_not_be_empty(program, lowering)

    def run(self, given: Mapping[Value, Array]) -> list[Array]:
        """What is wanted, computed from an array for each value that is taken.

        Raises:
            SessionError: ONNX Runtime fails to run the model; the message names the operator, its Cell and line.
            UsageError: a recurrent layer would be given no sequence.
        """
        if self._batches:
            self._refuse_empty_batches(given)
        results = self.session.run({name: given[value] for value, name in self.inputs.items()})
        return [results[name] for name in self.outputs]

    def _refuse_empty_batches(self, given: Mapping[Value, Array]) -> None:
        """Of no sequences, LSTM and GRU of ONNX Runtime end the process."""
        sizes = bind(self._program, [given[value] for value in self._program.inputs])
        for dim, layer in self._batches.items():
            if dim.symbols() <= sizes.keys() and dim.evaluate(sizes) == 0:
                raise UsageError(
                    f"{layer} is given a batch of size {dim} = 0, for which ONNX Runtime can't run it; leave out empty "
                    "batches, or run them with the program itself, which isn't compiled"
                )


def _batches_that_must_not_be_empty(program: Program, lowering: Lowering) -> dict[SymbolicDim, str]:
    """Symbolic numbers of sequences that recurrent operators are given, and the layer of each."""
    if not {node.op_type for node in lowering.graph.nodes} & {"LSTM", "GRU"}:
        return {}
    layers = [node for node in program.nodes if node.op in ("lstm", "gru")]
    batches = ((node.inputs[0].shape[1], where(program, node)) for node in layers if node.inputs[0] is not None)
    return {batch: layer for batch, layer in batches if isinstance(batch, SymbolicDim)}


def lowered(program: Program, wanted: Sequence[Value], handed_in: Sequence[Value]) -> Lowering:
    """The program as an optimized graph; inputs and results have the names of their values."""
    nodes = [step.node for step in plan(program, wanted)]
    opset = opsets.best(draws=any(node.op in RANDOM_OPS for node in nodes))
    inputs = [(value.name, value) for value in (*program.inputs, *handed_in)]
    results = [(f"{value.name}.result", value) for value in wanted]
    lowering, _ = lower_program(program, nodes, opsets.Choice(opset, opset), inputs, results)
    lowering.optimize()
    graph = lowering.graph
    graph.nodes = [replace(n, attributes=n.attributes | _seed(n.op_type)) for n in graph.nodes]
    return lowering


def _seed(op_type: str) -> dict[str, int | float]:
    """The seed of an operator that draws: without one, ONNX Runtime's own decides."""
    if op_type not in RANDOM:
        return {}
    seed = int(generator().integers(2**24))
    return {"seed": seed if op_type == "Dropout" else float(seed)}


def _loaded(lowering: Lowering, provider: str) -> Session:
    model = lowering.model()
    initializers = lowering.initializers()
    if size_of(initializers) <= MODEL_LIMIT:
        add_initializers(model, initializers)
        return Session(model, provider)
    with tempfile.TemporaryDirectory() as folder:  # one message can't hold them
        path = Path(folder) / "program.onnx"
        write(model, initializers, path)
        return Session(path, provider)
