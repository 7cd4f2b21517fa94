"""The search for a module's Cells and parameters in a file's program, repeated where the file has something else there.

Merged weights, products that agree with nothing and wrong weights hide Cells: inside them, and behind them, no value is
the module's. With the module's nodes or numbers in their place, the others are found as in a file without them.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch

from ....converter.structure.program_names import named_buffers, named_parameters
from ....runtime.errors import CellbridgeError
from ....runtime.ir.program import Program
from ....runtime.ir.types import Value
from ....runtime.programs.call import as_array
from ...results.cell_report import is_inside
from ...sides.records import Array, Key, Records
from ...sides.side import ParameterInfo
from ...sides.torch_side import TorchSide
from .corrected_parameters import corrected_program, with_numbers, with_own_numbers
from .crossings import Crossing
from .divided_products import with_sliced_products_divided
from .flat import FlatProgram, without_boundaries
from .found_cells import FoundCells, find_cells
from .gathered_products import with_rows_taken_first
from .joined_norms import with_norms_before_joining
from .layer_order import layer_orders
from .likely_places import likely_places
from .merged_factors import without_factors
from .merged_weights import Merged, without_merged_weights
from .parameters import ModuleParameters, PairedParameters, judged_holder
from .right_cells import wrong_cells
from .sides import FileSide
from .uncomputed_weights import computed_weights
from .wrong_parameters import pair_all_parameters


@dataclass(frozen=True)
class Match:
    """A module's Cells and parameters in a program.

    Attributes:
        program: the program in which they were looked for, without boundaries.
        cells: the Cells.
        paired: the parameters; weights that were merged may be rounded, as those that the module doesn't have.
        merged: the file's merged weights, which the program no longer has; None without any.
    """

    program: Program
    cells: FoundCells
    paired: PairedParameters
    merged: Merged | None = None


@dataclass(frozen=True)
class Search:
    """The search for the Cells and parameters of a module in a program.

    Attributes:
        module: the module.
        samples: the program's inputs, once or several times with other numbers.
        records: the module's records in float64 on the same inputs.
        ends: returns the places of the module's inputs and outputs in a program.
        side_of: makes a side of a program with Cells and parameters.
        keeps_other_code: whether merged weights, and products that agree with nothing, stay as the file has them.
        in_any_order: whether a value may have the elements of a tensor in any order along an axis.
    """

    module: TorchSide
    samples: Sequence[Sequence[Array]]
    records: Sequence[Records]
    ends: Callable[[Program, Sequence[Crossing]], dict[Crossing, Value]]
    side_of: Callable[[FoundCells, PairedParameters], FileSide]
    keeps_other_code: bool
    in_any_order: bool = True

    def match(self, program: Program) -> Match:
        """Return the Cells and parameters in a file's program, which has no boundaries.

        If the file is wrong, a value in another order is either what its code does by intent, or the fault: the fewest
        suspects tell, or the smallest. Where there are as many others without such values, these are.
        """
        match = self._match(program)
        if match.cells.is_right or not match.cells.has_orders:
            return match
        without = replace(self, in_any_order=False)._match(program)
        suspects, others = self._suspects(match), self._suspects(without)
        are_parts = all(path in others or any(is_inside(path, p) for p in others) for path in suspects)
        is_closer = len(suspects) == len(others) and are_parts
        return match if is_closer or len(suspects) < len(others) else without

    def _wrong_cells(self, match: Match) -> set[str]:
        return wrong_cells(self.side_of(match.cells, match.paired), self.records[0])

    def _suspects(self, match: Match) -> set[str]:
        """Return the wrong Cells, and the others that are judged in these, of which any may be what is wrong."""
        wrong, judged = self._wrong_cells(match), {call.path for call in match.cells.ownership.calls}
        return wrong | {path for path in match.cells.ownership.left_out if judged_holder(path, judged) in wrong}

    def _match(self, program: Program) -> Match:
        match = self._find(program)
        if not match.cells.is_right and (in_order := self._with_layers_in_order(program)) is not None:
            return in_order
        match = self._with_other_products(match)
        if not self.keeps_other_code:
            match = self._without_factors(self._without_merged_weights(match))
        return self._with_the_numbers_of_the_module(match)

    @cached_property
    def parameters(self) -> dict[str, ParameterInfo]:
        """The module's parameters by name."""
        return self.module.parameters()

    def lacking(self, paired: PairedParameters) -> list[str]:
        """Return the names of the trained parameters of the module that a file doesn't have as they are."""
        return [name for name, info in self.parameters.items() if info.trainable and name not in paired.paired]

    def _find(self, program: Program, likely: Mapping[Key, Value] | None = None, merged: Merged | None = None) -> Match:
        return self._paired(program, self._find_cells(program, likely), merged)

    def _find_cells(self, program: Program, likely: Mapping[Key, Value] | None = None) -> FoundCells:
        arrays = {name: info.data for name, info in self.parameters.items()}
        return find_cells(
            program, self.samples, self.records, self.ends, arrays, likely or {}, in_any_order=self.in_any_order
        )

    def _paired(self, program: Program, cells: FoundCells, merged: Merged | None) -> Match:
        side_of = functools.partial(self.side_of, cells)
        paired = pair_all_parameters(cells.marked.program, self._of_module, side_of, self.records[0])
        if merged is not None:
            paired = replace(paired, rounded=paired.rounded | merged.replaced)
        return Match(program, cells, paired, merged)

    def _without_merged_weights(self, match: Match) -> Match:
        lacking = self.lacking(match.paired)
        captured = self._captured if lacking else None
        if captured is None:
            return match
        plain, paired = without_boundaries(captured), match.paired
        merged = without_merged_weights(match.program, plain, lacking, paired.rounded, _known(paired))
        if merged is None:
            return match
        return self._with_merged(match, merged)

    def _with_merged(self, match: Match, merged: Merged) -> Match:
        before = match.merged or Merged(merged.program, frozenset(), ())
        replaced, parameters = before.replaced | merged.replaced, (*before.parameters, *merged.parameters)
        both = Merged(merged.program, replaced, parameters, {**before.factors, **merged.factors})
        return self._find(merged.program, merged=both)

    def _without_factors(self, match: Match) -> Match:
        """Return the Cells where products have the module's weights and a factor behind them, if no others are wrong.

        Behind a product whose weight is a wrong multiple, another Cell is. One inside a wrong Cell is no other.
        """
        captured = self._captured if (lacking := self.lacking(match.paired)) else None
        likely = self._at_likely_places(match)
        if captured is None:
            return likely
        merged = without_factors(match.program, without_boundaries(captured), lacking, match.paired.rounded)
        if merged is None:
            return likely
        again = self._at_likely_places(self._with_merged(match, merged))
        wrong = self._wrong_cells(likely)
        is_no_worse = all(path in wrong or any(is_inside(path, p) for p in wrong) for path in self._wrong_cells(again))
        return again if is_no_worse else likely

    def _with_computed_weights(self, match: Match, module: Program, unplaced: Collection[str]) -> Match:
        """Return the Cells that a program has if it computes weights from parameters as the module does, in its own."""
        computed = computed_weights(match.program, module, unplaced, _known(match.paired))
        if not computed:
            return match
        cells = self._find_cells(with_numbers(match.program, computed))
        marked = cells.marked.program
        if not computed.keys() <= marked.parameters.keys():
            return match
        own = {name: match.program.parameters[name].data for name in computed}
        with_own = replace(cells.marked, program=with_numbers(marked, own))
        again = self._paired(match.program, replace(cells, marked=with_own, is_right=False), match.merged)
        return again if len(again.cells.ownership.left_out) < len(match.cells.ownership.left_out) else match

    def _at_likely_places(self, match: Match) -> Match:
        left_out, paired = match.cells.ownership.left_out, match.paired
        unplaced = {name for name in self.parameters if name.rpartition(".")[0] in left_out}
        may_be_elsewhere = bool(unplaced) and not match.cells.is_right and not match.cells.moved
        captured = self._captured if may_be_elsewhere else None
        if captured is None:
            return match
        match = self._with_computed_weights(match, without_boundaries(captured), unplaced)
        left_out, places, paired = match.cells.ownership.left_out, match.cells.places, match.paired
        unplaced = {name for name in unplaced if name.rpartition(".")[0] in left_out}
        taken = {value for tensor, value in places.of.items() if tensor not in places.by_trial | places.by_paths}
        likely = likely_places(match.program, captured, unplaced, paired.rounded, _known(paired), taken)
        if likely is None:
            return match
        again = self._find(likely.program, likely.places, match.merged)
        return again if len(again.cells.ownership.left_out) < len(left_out) else match

    def _with_other_products(self, match: Match) -> Match:
        """Return the Cells where products are computed of the rows, or for the features, that are taken of them.

        Or where norms are computed before tensors are joined. Each is done if more Cells are there then.
        """
        for rewritten in (with_rows_taken_first, with_sliced_products_divided, with_norms_before_joining):
            left_out = match.cells.ownership.left_out
            program = rewritten(FlatProgram(match.program)) if left_out else None
            again = match if program is None else self._find(program)
            match = again if len(again.cells.ownership.left_out) < len(left_out) else match
        return match

    def _with_layers_in_order(self, program: Program) -> Match | None:
        """Return the Cells that a program has with its layers in the module's order, if its results are the module's
        then, and its parameters as they are.
        """
        infos = self.parameters
        for order in layer_orders(program, self._of_module):
            again = self._find(with_numbers(program, order.arrays))
            if not again.cells.is_right or not order.partners.keys() <= again.paired.paired:
                continue
            own = {name: infos[other].data for name, other in order.partners.items()}
            paired = replace(again.paired, program=with_numbers(again.paired.program, own))
            return replace(again, program=program, paired=paired)
        return None

    def _with_the_numbers_of_the_module(self, match: Match) -> Match:
        """Return the Cells that a program has with the right numbers in its wrong parameters, and these as they are."""
        if not match.paired.corrected:
            return match
        program = corrected_program(match.program, match.cells.marked.program, match.paired)
        again = self._find(program, merged=match.merged)
        if not self.keeps_other_code and not match.paired.wrong <= again.paired.paired:
            again = self._without_merged_weights(again)
        own = with_own_numbers(again.paired, match.paired)
        return match if own is None else replace(again, paired=own)

    @cached_property
    def _captured(self) -> Program | None:
        """The module's program; None if it can't be captured."""
        try:
            return self.module.in_interpreter().program
        except CellbridgeError:
            return None

    @cached_property
    def _of_module(self) -> ModuleParameters:
        module = self.module.module
        buffers = [as_array(buffer) for _, buffer in named_buffers(module)]
        return ModuleParameters(self.parameters, buffers, _shared(module))


def _known(paired: PairedParameters) -> dict[str, str]:
    """Return by name of a parameter of the module the name of the file's value with its numbers."""
    return {name: paired.program.parameters[name].value.name for name in paired.paired}


def _shared(module: torch.nn.Module) -> Collection[str]:
    """Return the names of the parameters that several modules use."""
    count = Counter(id(parameter) for _, parameter in named_parameters(module, remove_duplicate=False))
    return {name for name, parameter in named_parameters(module) if count[id(parameter)] > 1}
