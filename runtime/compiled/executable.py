"""`Executable`: an ONNX model in ONNX Runtime that computes values of a program."""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import UsageError
from ..ir.dims import SymbolicDim
from ..ir.program import Program
from ..ir.types import Value
from ..lowering import opsets
from ..lowering.model import Lowering, lower_program
from ..lowering.nodes import location
from ..lowering.passes.share import RANDOM
from ..lowering.rewrites import ON_CPU, rewrite
from ..lowering.writing import add_references
from ..ops.random import generator
from ..ops.registry import get
from ..programs.interpreter import bind
from ..programs.plan import plan
from .session import Session, choose_provider

Array = np.ndarray[Any, Any]


class Executable:
    """A program that is lowered, and loaded into ONNX Runtime when it is first needed.

    On the CPU, ops in float16 and bfloat16 compute in float32 and round once, as the interpreter's kernels do: ONNX
    Runtime has few kernels of those dtypes there.

    Its random numbers are seeded by `set_seed` at the time of creation, and differ from run to run.

    Args:
        program: the program.
        values: the values to compute.
        extra_inputs: parameters and buffers to pass in each run, besides the inputs; the others are in the model.
        provider: "cpu", "cuda", or None for the best available one.
        cuda_graph: whether its session should record runs as CUDA graphs; see `Session`.

    Attributes:
        outputs: name of each of `values`.

    Raises:
        UnsupportedOperators: ops that have no ONNX form: all of them, with Cell path and source line.
        ConversionError: an op has no ONNX form with these attributes or symbolic sizes.
        UsageError: the provider isn't available.
    """

    def __init__(
        self,
        program: Program,
        values: Sequence[Value],
        extra_inputs: Sequence[Value] = (),
        provider: str | None = None,
        *,
        cuda_graph: bool = False,
    ) -> None:
        provider = choose_provider(provider)
        rules = ON_CPU if provider == "cpu" else ()
        lowering = lower_values(functools.reduce(rewrite, rules, program), values, extra_inputs, provider)
        self._names = {value: lowering.tensors[value] for value in lowering.inputs}
        self._lowering: Lowering | None = lowering
        self._provider = provider
        self._cuda_graph = cuda_graph and _can_be_recorded(lowering)
        self._loading = threading.Lock()
        self._session: Session | None = None
        self.outputs = [name for name, _ in lowering.results]
        self._program = program.without_data()  # the session has the data
        self._batches = _batches_that_must_not_be_empty(program, lowering)

    @property
    def session(self) -> Session:
        """The session that runs it.

        Raises:
            UsageError: ONNX Runtime can't run the model.
        """
        with self._loading:
            if self._session is None:
                assert self._lowering is not None, "it is kept until the session is there"
                model = self._lowering.model()
                tensors = add_references(model, self._lowering.initializers())
                self._session = Session(model, self._provider, tensors, cuda_graph=self._cuda_graph)
                self._lowering = None
            return self._session

    @functools.cached_property
    def inputs(self) -> dict[Value, str]:
        """Name of each input value: those of `program.inputs` and `extra_inputs` that are used."""
        used_names = set(self.session.inputs)
        return {value: name for value, name in self._names.items() if name in used_names}

    def run(self, arrays: Mapping[Value, Array]) -> list[Array]:
        """Compute `values` from an array for each input value.

        Raises:
            SessionError: ONNX Runtime fails to run the model; the message names the operator, its Cell and line.
            UsageError: a recurrent layer would get an empty batch.
        """
        if self._batches:
            self._refuse_empty_batches(arrays)
        results = self.session.run({name: arrays[value] for value, name in self.inputs.items()})
        return [results[name] for name in self.outputs]

    def _refuse_empty_batches(self, arrays: Mapping[Value, Array]) -> None:
        """Raise `UsageError` for an empty batch, on which LSTM and GRU of ONNX Runtime crash."""
        sizes = bind(self._program, [arrays[value] for value in self._program.inputs])
        for dim, layer in self._batches.items():
            if dim.symbols() <= sizes.keys() and dim.evaluate(sizes) == 0:
                raise UsageError(
                    f"{layer} is given a batch of size {dim} = 0, for which ONNX Runtime can't run it; leave out empty "
                    "batches, or run them with the program itself, in the interpreter"
                )


def _batches_that_must_not_be_empty(program: Program, lowering: Lowering) -> dict[SymbolicDim, str]:
    """Return the symbolic batch sizes of recurrent operators, and the layer of each."""
    if not {node.op_type for node in lowering.graph.nodes} & {"LSTM", "GRU"}:
        return {}
    layers = [node for node in program.nodes if node.op in ("lstm", "gru")]
    batches = ((node.inputs[0].shape[1], location(program, node)) for node in layers if node.inputs[0] is not None)
    return {batch: layer for batch, layer in batches if isinstance(batch, SymbolicDim)}


def _can_be_recorded(lowering: Lowering) -> bool:
    """Whether a CUDA graph of a run may be repeated: it draws no random numbers, and copies no constant to a result."""
    draws = any(node.op_type in RANDOM for node in lowering.graph.nodes)
    return not draws and not any(
        lowering.graph.current(lowering.tensors[value]) in lowering.graph.initializers for _, value in lowering.results
    )


def lower_values(
    program: Program, values: Sequence[Value], extra_inputs: Sequence[Value], provider: str = "cpu"
) -> Lowering:
    """Lower the program to an optimized graph whose inputs and results have the names of their values."""
    nodes = [step.node for step in plan(program, values)]
    opset = opsets.best(draws=any(get(node.op).traits.draws for node in nodes), provider=provider)
    inputs = [(value.name, value) for value in (*program.inputs, *extra_inputs)]
    results = [(f"{value.name}.result", value) for value in values]
    lowering, _ = lower_program(program, nodes, opsets.Choice(opset, opset), inputs, results)
    lowering.optimize(provider)
    graph = lowering.graph
    graph.nodes = [replace(n, attributes=n.attributes | _seed(n.op_type)) for n in graph.nodes]
    return lowering


def _seed(op_type: str) -> dict[str, int | float]:
    """Return the seed attribute of a random operator; without it, ONNX Runtime would choose a seed."""
    if op_type not in RANDOM:
        return {}
    seed = int(generator().integers(2**24))
    return {"seed": seed if op_type == "Dropout" else float(seed)}
