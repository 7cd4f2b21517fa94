"""All probes of a pair of sides, in the order in which they are tried: one of each family in turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from torch import nn

from ....converter.capture.other_numbers import with_other_numbers
from ...sides.abilities import GivesInputs, HasIntegers, RunsModule, RunsProgram
from ...sides.run import Arguments
from ...sides.side import Side
from .integers import index_probes, integer_probes
from .lengths import MAX_SIZE, size_probes
from .observed import Observed, observe, takes_any_integers
from .operations import vocabularies_of
from .probe import Probe
from .range_ends import DTYPE as RANGE
from .range_ends import range_end_probes, takes_any_size
from .switched_arguments import switched_argument_probes
from .switches import ordinary
from .values import (
    Cycle,
    Inputs,
    around,
    cotangent_probes,
    equal_number_probes,
    mask_probes,
    not_finite_probes,
    number_probes,
    switch_probes,
    wide,
)

MAX_VOCABULARIES = 4


def probes(reference: Side, side: Side, observed: Observed | None = None) -> Iterator[Probe]:
    """Yield the probes for a side: none if nothing is known of the reference's inputs.

    Complex inputs aren't probed.

    Args:
        reference: the reference.
        side: the side.
        observed: what the operations of the reference do, if that is known.
    """
    inputs = _inputs_of(reference)
    if inputs is None or any(tensor.is_complex() for tensor in inputs.tensors.values()):
        return
    of_reference, of_side = observed or observe(reference), observe(side)
    order, side_order = of_reference.order, of_side.order
    switches = ordinary(of_reference.switches | of_side.switches | order.jumps | side_order.jumps)
    clear = all(
        network_order.clear and (network_order.defined or not network_order.takes)
        for network_order in (order, side_order)
    )
    if isinstance(reference, RunsModule):
        of_module = _of_module(inputs, reference, side)
        vocabularies, special = _vocabularies(reference.module), _padding_indices(reference, side)
    else:
        of_module, special = [], []
        vocabularies = vocabularies_of(reference.own_program()) if isinstance(reference, RunsProgram) else []
    # ONNX Runtime's kernels (MaxPool, LSTM) don't always pass on NaN, whatever the file
    judges_nan = side.capabilities.checks[0][0] == "meaning"
    both = (reference, side) if isinstance(reference, RunsModule) and isinstance(side, RunsModule) else None
    defined = order.takes and order.defined
    in_range = judges_nan and ("rounding", RANGE) in side.capabilities.checks
    any_size = in_range and bool(inputs.numbers) and takes_any_size(reference, inputs)
    steps = ((reference, of_reference.steps), (side, of_side.steps))
    any_integers = bool(inputs.indices) and all(takes_any_integers(network, inputs, own) for network, own in steps)
    yield from _in_turn(
        mask_probes(inputs),
        number_probes(inputs),
        *of_module,
        _of_cells(switches) if side.capabilities.cells == "own" else (),
        index_probes(inputs, vocabularies[:MAX_VOCABULARIES], special),
        integer_probes(inputs, rounds=RANGE in dict(side.capabilities.checks).values()) if any_integers else (),
        range_end_probes(inputs, any_size=any_size) if in_range else (),
        switch_probes(inputs, switches, positions=clear),
        equal_number_probes(inputs, positions=defined, gradients=defined and both is not None),
        switched_argument_probes(*both) if both is not None else (),
        cotangent_probes() if side.capabilities.calls.live else (),
        not_finite_probes(inputs) if judges_nan else (),
    )


def _inputs_of(reference: Side) -> Inputs | None:
    given = reference.given_inputs() if isinstance(reference, GivesInputs) else None
    return None if given is None else Inputs.of(*given)


def _of_module(inputs: Inputs, reference: RunsModule, side: Side) -> list[Iterator[Probe]]:
    """Return the families of other sizes and of several calls."""
    can, families = side.capabilities, list[Iterator[Probe]]()
    if can.calls.live:
        integers = set().union(
            *(network.integers() for network in (reference, side) if isinstance(network, HasIntegers))
        )
        numbers = {n for n in integers if 1 < n < MAX_SIZE}
        families.append(size_probes(inputs, numbers, after_given=can.calls.keeps_state))
    return [*families, _of_calls(inputs.arguments, reference, side)]


def _of_cells(switches: list[float]) -> Iterator[Probe]:
    yield Probe("numbers inside of either sign from 0.001 to 1000", inside=wide)
    if switches:
        at = around(switches)
        beside = [value for value in at if value not in switches]
        yield Probe(
            "numbers inside at values at which operations switch",
            inside=Cycle(tuple(at)),
            beside=Cycle(tuple(beside)),
            exact=True,
        )


def _of_calls(given: Arguments, reference: RunsModule, side: Side) -> Iterator[Probe]:
    if side.capabilities.calls.live:
        yield Probe("eval mode" if reference.train else "train mode", other_mode=True)
    if side.capabilities.calls.keeps_state:
        yield Probe("other calls before", before=(given, with_other_numbers(given)))


def _in_turn(*families: Iterable[Probe]) -> Iterator[Probe]:
    """Yield a probe of each family, then the next of each, so that none waits for all of another."""
    waiting = deque(map(iter, families))
    while waiting:
        family = waiting.popleft()
        for probe in family:
            yield probe
            waiting.append(family)
            break


def _vocabularies(module: nn.Module) -> list[int]:
    """The number of rows of the embedding tables, or of the matrices that may be such tables; the largest."""
    tables = {inner.num_embeddings for inner in module.modules() if isinstance(inner, nn.Embedding)}
    matrices = {p.shape[0] for p in module.parameters() if p.ndim == 2}
    return sorted(tables or matrices, reverse=True)[:MAX_VOCABULARIES]


def _padding_indices(*sides: Side) -> list[int]:
    """The rows of embedding tables that aren't trained."""
    modules = [inner for side in sides if isinstance(side, RunsModule) for inner in side.module.modules()]
    return [m.padding_idx for m in modules if isinstance(m, nn.Embedding) and m.padding_idx is not None]
