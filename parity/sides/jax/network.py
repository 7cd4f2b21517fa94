"""A network in JAX that can be run on any inputs of the same sizes, as it is and as a program."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ....converter.jax_in.importing import from_jax, name_of_leaf
from ....runtime import tree
from ....runtime.ir.program import Program
from ....runtime.ir.types import as_dtype
from ....runtime.programs.call import as_array
from ....runtime.tree import Structure
from ...dtypes import cast_floating
from ...results.notes import warnings_as_notes
from ...support.user_code import report_user_errors
from ..cell_arguments import output_tensors, result_structure
from ..interpreter_side import InterpreterSide
from ..jax_side import NAME, JaxSide
from ..records import INPUT, INPUT_GRADIENT, OUTPUT, Array, Key, Records
from ..rounded_numbers import SAMPLES, up_or_down
from ..run import Arguments, Run
from ..side import Capabilities, OwnNumbers, ParameterInfo, native_checks
from .cells import as_function
from .double_precision import evaluate_in_double
from .leaves import cast, is_floating, is_variable, split
from .observer import Observer, is_array

Results = tuple[list[Any], list[Any], list[Any]]
"""Outputs, gradients of the parameters that are differentiated, and gradients of the floating-point inputs."""


@dataclass(frozen=True, eq=False, repr=False)
class JaxNetwork:
    """A network in JAX, run on torch's arguments, and recorded at its results.

    The program is traced in float64, in which numbers in the code keep their digits. It takes torch's arguments, too:
    what makes the network's of them is a part of it. A run has gradients if the reference's cotangents are known.

    Attributes:
        side: the network.
        args: torch's positional inputs.
        kwargs: torch's keyword inputs.
        working_dtype: the dtype whose rounding is judged.
        has_parameters: whether it has parameters, and their gradients, by the names that its program gives them.
        computed: parameters that were computed from those of another side, and rounded.
        compiled: the network compiled for runs in float64, by whether it computes gradients, and with perturbed
            numbers.
    """

    side: JaxSide
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    _: KW_ONLY
    working_dtype: str = "float32"
    has_parameters: bool = True
    computed: Collection[str] = ()
    compiled: dict[tuple[bool, bool], Callable[..., Results]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The framework's name."""
        return NAME

    @property
    def capabilities(self) -> Capabilities:
        """Those of a port that is a function: it runs in every dtype, and keeps no state."""
        numbers = OwnNumbers(perturbations=SAMPLES if self.computed else 1)
        return Capabilities(native_checks(self.working_dtype), cells="none", numbers=numbers, is_port=True)

    @cached_property
    def program(self) -> Program:
        """The network as a program.

        Raises:
            CellbridgeError: JAX can't trace it, or it has primitives that no program has.
        """
        tensors = self._tensors(self.arguments, "float64")
        with jax.enable_x64(True), warnings_as_notes():
            params, network = self._function("float64")
            program = from_jax(network, *tensors, params=params)
        return program.replace(arguments=self._structure).astype(self.working_dtype)

    def in_interpreter(self, run: Run | None = None) -> InterpreterSide:
        """Return the side of the program, on the inputs of a run, by default the given ones.

        Raises:
            CellbridgeError: there is none.
        """
        args, kwargs = self.arguments if run is None or run.call.arguments is None else run.call.arguments
        return InterpreterSide(self.name, self.program, args, kwargs, working_dtype=self.working_dtype)

    def parameters(self) -> dict[str, ParameterInfo]:
        """Parameters by the paths of their leaves."""
        stored = self.program.parameters if self.has_parameters else {}
        return {name: ParameterInfo(parameter.data, parameter.trainable) for name, parameter in stored.items()}

    def result(self) -> tuple[Structure, list[Array]]:
        """Run once in float64, outside of any program; return the structure and the tensors of the result.

        Raises:
            UsageError: the network raises.
        """
        tensors = self._tensors(self.arguments, "float64")
        with jax.enable_x64(True), report_user_errors("jax_side", "when the network was run"):
            params, network = self._function("float64")
            result = network(params, *map(jnp.asarray, tensors))
        return result_structure(result, is_array), list(map(np.asarray, array_leaves(result)))

    def run(self, run: Run) -> Records:
        """Run once; see `Run`. A feed has no effect, since inner Cells aren't visible."""
        result, reference = self.program.result, run.reference
        match = reference.match_result(result, is_port=True)
        cotangents = reference.root_cotangents(match.partners)
        records = Records()
        records.record_result(result, match)
        records.gradients.cotangents = cotangents
        fit = all(c is None or c.shape == x.shape for c, x in zip(cotangents, self.program.outputs, strict=False))
        records.faults.broken = run.wanted.grads and (reference.lacks_outputs(match.partners) or not fit)
        grads = run.wanted.grads and reference.cotangents is not None and not records.faults.broken
        tensors = self._tensors(run.call.arguments or self.arguments, run.dtype)
        with jax.enable_x64(run.dtype == "float64"), report_user_errors("jax_side", "when the network was run"):
            params, network = self._function(run.dtype)
            names = [name_of_leaf(path) for path, leaf in jax.tree.leaves_with_path(params) if is_variable(leaf)]
            variables, with_variables = split(params, is_variable)

            def results(variables: Any, tensors: Any, cotangents: Any) -> Results:
                def of_variables(variables: Any, *tensors: Any) -> Any:
                    return network(with_variables(variables), *tensors)

                return _results(of_variables, variables, tensors, cotangents if grads else None)

            if run.dtype == "float64":
                if run.numbers.perturbed:
                    variables = self._perturbed(names, variables, run.numbers.perturbed)
                results = self._in_double(results, grads, bool(run.numbers.perturbed))
            outputs, of_variables, of_inputs = results(variables, list(map(jnp.asarray, tensors)), cotangents)
        slots = reference.root_slots([path or "result" for path in result.paths()], match.partners)
        for slot, output in zip(slots, outputs, strict=True):
            records.add(Key("", 0, OUTPUT, slot), np.asarray(output))
        inputs = reference.slots.get(("", 0, INPUT), self._structure.paths())
        floating = [slot for slot, tensor in zip(inputs, tensors, strict=True) if is_floating(tensor)]
        for slot, gradient in zip(floating, of_inputs, strict=False):
            records.add(Key("", 0, INPUT_GRADIENT, slot), np.asarray(gradient))
        gradients = dict(zip(names, map(np.asarray, of_variables), strict=False))
        records.gradients.parameters = {name: g for name, g in gradients.items() if name in self.parameters()}
        return records

    def _perturbed(self, names: Sequence[str], variables: Sequence[Any], sample: int) -> list[Any]:
        """Return the parameters in float64, those that were computed perturbed up or down, as a sample says."""
        generator = np.random.default_rng(sample)

        def changed(name: str, leaf: Any) -> Any:
            if name not in self.computed:
                return leaf
            return jnp.asarray(up_or_down(np.asarray(leaf), generator, is_computed=True))

        return list(map(changed, names, variables))

    def _in_double(self, results: Callable[..., Results], grads: bool, perturbed: bool) -> Callable[..., Results]:
        """Return the function evaluated in float64, compiled at most once."""
        if (grads, perturbed) not in self.compiled:
            self.compiled[grads, perturbed] = jax.jit(
                lambda *arguments: evaluate_in_double(results, arguments, perturbed=perturbed)
            )
        return self.compiled[grads, perturbed]

    @property
    def arguments(self) -> Arguments:
        """Torch's inputs."""
        return self.args, dict(self.kwargs)

    @cached_property
    def _structure(self) -> Structure:
        """The structure of torch's arguments."""
        return tree.flatten(self.arguments)[1]

    def _tensors(self, arguments: Arguments, dtype: str) -> list[Array]:
        """Return the tensors in torch's arguments, in a dtype and rounded to the working dtype first."""
        leaves = map(as_array, tree.match_call(self._structure, *arguments))
        return [cast_floating(cast_floating(leaf, as_dtype(self.working_dtype)), as_dtype(dtype)) for leaf in leaves]

    def _function(self, dtype: str) -> tuple[Any, Callable[..., Any]]:
        """Return the parameters in a dtype, rounded to the working dtype first, and a function of them and tensors."""
        params, call = as_function(self.side)

        def network(params: Any, *tensors: Any) -> Any:
            args, kwargs = tree.unflatten(self._structure, list(tensors))
            if self.side.inputs is not None:
                args, kwargs = self.side.inputs(*args, **kwargs), {}
            return call(params, Observer({}, self.side.returns), args, kwargs)

        return jax.tree.map(lambda leaf: cast(cast(leaf, self.working_dtype), dtype), params), network


def array_leaves(result: Any) -> list[Any]:
    """Return the arrays of a result, in the order in which it holds them."""
    return output_tensors(result, is_array)[1]


def _results(
    network: Callable[..., Any], variables: Any, tensors: Sequence[Any], cotangents: Sequence[Array | None] | None
) -> Results:
    """Return the outputs of a network, and the gradients from these cotangents, of which integers have none."""
    inputs, with_inputs = split(list(tensors), is_floating)

    def forward(variables: Any, inputs: Any) -> tuple[list[Any], list[Any]]:
        outputs = jax.tree.leaves(network(variables, *with_inputs(inputs)))
        return list(filter(is_floating, outputs)), outputs

    if cotangents is None:
        return forward(variables, inputs)[1], [], []
    _, pull, outputs = jax.vjp(forward, variables, inputs, has_aux=True)
    seeds = [
        jnp.zeros_like(x) if cotangent is None else jnp.asarray(cotangent, x.dtype)
        for x, cotangent in zip(outputs, cotangents, strict=True)
        if is_floating(x)
    ]
    of_variables, of_inputs = pull(seeds)
    return outputs, of_variables, of_inputs
