"""Which Cells of two recordings are the same: by the parameters that they hold, and by what crosses their boundaries.

Parameters say which Cells hold the same weights, whatever was computed before. Values say where a Cell begins and
ends: of two Cells with the same weights, one may add the residual. So a pair holds the same parameters, as far as these
are known, and no value that both networks have says otherwise. A value that is only passed on (by a dropout in eval
mode, an identity) belongs to the Cells that computed it, the outermost to the outermost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from ...correspondence.name_patterns import without_numbers
from ...sides.records import INPUT, OUTPUT, Array
from .equal_parameters import INPUTS, PARAMETERS, VALUES, Pair, alike, groups, is_in_another_order, matching_parameters
from .equal_parts import are_of_one_form, is_close
from .names import NameMap
from .recorded_cells import Cells
from .same_values import SameValues
from .views import WHOLE, View


class Alignment:
    """Pairs the Cells and parameters of two networks.

    Args:
        reference: the reference's.
        candidate: the recording's.

    Attributes:
        parameters: for each parameter of the reference whose values the recording has, where.
        cells: for each Cell of the reference, its counterpart.
    """

    def __init__(self, reference: Cells, candidate: Cells) -> None:
        self.reference, self.candidate = reference, candidate
        self.parameters = matching_parameters(reference.run.parameters, candidate.run.parameters)
        self.cells: dict[str, Pair] = {}
        numbers = groups(reference.run.parameters, candidate.run.parameters, self.parameters)
        self._held = [
            {path: frozenset(number[name] for name in names if name in number) for path, names in cells.held.items()}
            for cells, number in zip((reference, candidate), numbers, strict=True)
        ]
        self.values = SameValues(reference, candidate)
        self._others: set[tuple[str, str]] = set()
        self._pair_by_values()
        self._pair_by_parameters()
        while self._pair_by_inputs():
            pass

    def _same_parameters(self, path: str, other: str) -> bool | None:
        """Whether two Cells hold the same parameters; None if nothing is known of those of either."""
        held, other_held = self._held[0][path], self._held[1][other]
        return held == other_held if held and other_held else None if not (held or other_held) else False

    def _pair_by_values(self) -> None:
        """Pair Cells that return the same values, and take the same as far as that is known; the likeliest first."""
        options: list[tuple[tuple[float, ...], str, str, View]] = []
        for path in self.reference.paths:
            for other in self.candidate.paths:
                view = self.values.view(path, other)
                takes = self.values.agrees(path, other, INPUT)
                if view is None or takes is False:
                    continue
                same = self._same_parameters(path, other)
                is_part = bool(view.index)
                if same is False and not is_part and not (takes and not (self._held[0][path] and self._held[1][other])):
                    continue
                depths = self.reference.depths[path], self.candidate.depths[other]
                rank = (
                    float(bool(same)), float(bool(takes)), float(not is_part), -abs(depths[0] - depths[1]), -depths[0],
                    alike(path, other),
                )  # fmt: skip
                options.append((rank, path, other, view))
        taken: set[tuple[str, str]] = set()
        for _, path, other, view in sorted(options, key=lambda option: option[0], reverse=True):
            place = other, str(View(view.index))
            whole = {(other, ""), place} if place[1] else {part for part in taken if part[0] == other}
            if path in self.cells or place in taken or whole & taken:
                continue
            taken.add(place)
            self.cells[path] = Pair(other, view, VALUES)

    def _pair_by_parameters(self) -> None:
        """Pair Cells that hold the same parameters, and of whose values nothing says that they aren't the same."""
        confirmed: dict[str, set[str]] = {}
        for path, pair in self.cells.items():
            confirmed.setdefault(without_numbers(path), set()).add(without_numbers(pair.name))
        options: list[tuple[tuple[float, ...], str, str]] = []
        for path, other in self._free():
            if not self._same_parameters(path, other) or not self.values.same_size(path, other):
                continue
            if self._are_others(path, other):
                continue
            depths = self.reference.depths[path], self.candidate.depths[other]
            options.append(((-abs(depths[0] - depths[1]), -depths[0], alike(path, other)), path, other))
        for _, path, other in sorted(options, key=lambda option: option[0], reverse=True):
            own_form, form = without_numbers(path), without_numbers(other)
            # what is known of other layers holds for this one
            if (own_form, form) in self._others or form not in confirmed.get(own_form, {form}):
                continue
            if path not in self.cells and other not in self._taken:
                self.cells[path] = Pair(other, self.values.likely_view(path, other), PARAMETERS)

    def _pair_by_inputs(self) -> bool:
        """Pair Cells without known parameters that alone take the same values; return whether there were any."""
        wholes = {path: pair.name for path, pair in self.cells.items() if pair.view.is_whole}
        returned = {self.values.numbers(*pair, OUTPUT) for pair in wholes.items()} - {None}
        options = [
            (path, other)
            for path, other in self._free()
            if not (self._held[0][path] or self._held[1][other])
            and self.values.same_size(path, other)
            and (self.values.agrees(path, other, INPUT) or self.values.numbers(path, other, INPUT) in returned)
        ]
        reference_counts, candidate_counts = (
            (Counter(names) for names in zip(*options, strict=True)) if options else (Counter(), Counter())
        )
        pairs = [
            (p, o) for p, o in options if reference_counts[p] == candidate_counts[o] == 1 and not self._are_others(p, o)
        ]
        self.cells |= {path: Pair(other, self.values.likely_view(path, other), INPUTS) for path, other in pairs}
        return bool(pairs)

    def _are_others(self, path: str, other: str) -> bool:
        """Whether values say that two Cells that aren't paired by them aren't the same, or those of another layer."""
        form = without_numbers(path), without_numbers(other)
        if form not in self._others and self._are_denied(path, other):
            self._others.add(form)
        return form in self._others

    def _are_denied(self, path: str, other: str) -> bool:
        """Whether values say so of these two."""
        if any(self.values.agrees(path, other, kind) is False for kind in (INPUT, OUTPUT)):
            return True
        return self._is_right(path, other) or any(
            is_in_another_order(*both) for both in self._own_parameters(path, other)
        )

    def _own_parameters(self, path: str, other: str) -> Iterator[tuple[Array, Array]]:
        """Yield the parameters of the same name that two Cells have themselves."""
        reference_parameters, candidate_parameters = self.reference.run.parameters, self.candidate.run.parameters
        for name in self.reference.held[path]:
            around, _, last = name.rpartition(".")
            if around == path and name in reference_parameters and f"{other}.{last}" in candidate_parameters:
                yield reference_parameters[name], candidate_parameters[f"{other}.{last}"]

    def takes_otherwise(self, path: str) -> bool:
        """Whether a Cell returns what its counterpart does up to rounding, and takes something else."""
        pair = self.cells[path]
        if pair.evidence != VALUES or pair.view.index or not self.values.is_rounded(path, pair.name):
            return False
        known = self.reference.of(path, INPUT) and self.candidate.of(pair.name, INPUT)
        if known and not self.values.agrees(path, pair.name, INPUT):
            return True
        reference_inputs, candidate_inputs = self.reference.inputs(path), self.candidate.inputs(pair.name)
        same = [
            slot
            for slot, array in reference_inputs.items()
            if slot in candidate_inputs and are_of_one_form(array, candidate_inputs[slot])
        ]
        return not all(self.values.are_equal(reference_inputs[slot], candidate_inputs[slot]) for slot in same)

    def _is_right(self, path: str, other: str) -> bool:
        """Whether the Cells around two Cells return the same up to rounding: then none inside is wrong."""
        while path:
            path = path.rpartition(".")[0]
            pair = self.cells.get(path) if path else Pair("", WHOLE, VALUES)
            if pair is not None and (not pair.name or other.startswith(f"{pair.name}.")):
                return pair.evidence == VALUES and self.values.is_rounded(path, pair.name)
        return False

    def may_be(self, path: str, other: str) -> bool:
        """Whether nothing says that two Cells aren't the same: of what they return, take and hold."""
        if other not in self.candidate.held:
            return True
        if self._held[0][path] and self._held[1][other] and not self._same_parameters(path, other):
            return False
        return all(self.values.agrees(path, other, kind) is not False for kind in (INPUT, OUTPUT))

    def without_counterpart(self, names: NameMap) -> list[str]:
        """Return the Cells that names say to be others than they are.

        Args:
            names: the map that is proposed.
        """
        paths = []
        for path in self.reference.held:
            other = names.cell(path).name
            if path not in self.cells and other in self.candidate.held and not self.may_be(path, other):
                paths.append(path)
        return paths

    def parameters_in_another_form(self, names: NameMap, matched: Collection[str]) -> list[str]:
        """Return the parameters that the recording has with other numbers, in Cells that compute the same.

        Args:
            names: the map that is proposed.
            matched: the parameters whose numbers the recording has.
        """
        pairs = {path: pair.name for path, pair in self.cells.items() if pair.evidence == VALUES}
        takes = {path for path, other in pairs.items() if self.values.agrees(path, other, INPUT)}
        same = takes | {path for path, other in pairs.items() if self.values.is_rounded(path, other)}
        held = [
            name for name in self.reference.run.parameters if name.rpartition(".")[0] in same and name not in matched
        ]
        forms = {without_numbers(name) for name in self._differing(held, names)}
        names_left = (name for name in self.reference.run.parameters if name not in matched)
        alike = [name for name in names_left if without_numbers(name) in forms]
        return self._differing(alike, names)

    def _differing(self, parameters: Iterable[str], names: NameMap) -> list[str]:
        """Return those parameters of which the recording has other numbers by these names."""
        reference_parameters, candidate_parameters = self.reference.run.parameters, self.candidate.run.parameters
        pairs = [(name, candidate_parameters.get(names.parameter(name).name)) for name in parameters]
        known = [(name, other) for name, other in pairs if other is not None]
        return [name for name, other in known if not is_close(reference_parameters[name], other)]

    @property
    def _taken(self) -> set[str]:
        return {pair.name for pair in self.cells.values()}

    def _free(self) -> Iterator[tuple[str, str]]:
        """Yield the Cells that aren't paired yet, each with each."""
        taken = self._taken
        for path in [path for path in self.reference.paths if path not in self.cells]:
            yield from ((path, other) for other in self.candidate.paths if other not in taken)
