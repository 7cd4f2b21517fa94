"""The results of two torch modules that return them in other containers: which tensors are the same answer.

A library returns a dict of logits and a cache, a port the logits alone. Where the containers differ, tensors are paired
by name, by values, by position, by order, and by shape, in this order. Then both modules return these, in the order of
the reference.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MethodType
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from ....converter.capture.containers import open_containers
from ....converter.capture.replaced_method import replaced_method
from ....runtime.errors import CellbridgeError
from ....runtime.tree import Structure, unflatten
from ...correspondence.structures import kind_of, match_results
from ...options import Options
from ...report.globs import list_names
from ...report.report import Report
from ...results.structure import OTHER_RESULT, StructureDifference
from ...sides.records import OUTPUT, Array, Records
from ...sides.run import FORWARD, Run
from ...sides.torch_side import TorchSide

CLOSE = 1e-3
"""Relative distance of results that are the same answer, if a wrong one: others are farther apart."""


@dataclass(frozen=True)
class Returned:
    """What a network returns.

    Attributes:
        structure: the structure of the result.
        arrays: its tensors, in order.
    """

    structure: Structure
    arrays: list[Array]


@dataclass(frozen=True)
class Answers:
    """The common results of two modules.

    Attributes:
        reference: structure of the reference's result.
        candidate: structure of the candidate's.
        pairs: positions of a tensor in the reference's result and in the candidate's, in the reference's order.
    """

    reference: Structure
    candidate: Structure
    pairs: Sequence[tuple[int, int]]

    @property
    def lone(self) -> tuple[list[str], list[str]]:
        """The results that only the reference, and only the candidate, returns."""
        of_reference, of_candidate = ({pair[side] for pair in self.pairs} for side in (0, 1))
        return (
            [_name(path) for i, path in enumerate(self.reference.paths()) if i not in of_reference],
            [_name(path) for i, path in enumerate(self.candidate.paths()) if i not in of_candidate],
        )

    @property
    def coverage(self) -> str:
        """Which part of the reference's results is compared, as a phrase; empty for all of them."""
        if not self.lone[0]:
            return ""
        return f"in {len(self.pairs)} of {self.reference.tensors} results"

    def differences(self) -> list[StructureDifference]:
        """Return the difference in words: what was compared with what, and what has no partner."""
        reference_paths, candidate_paths = self.reference.paths(), self.candidate.paths()
        compared = [
            _name(reference_paths[i])
            if reference_paths[i] == candidate_paths[j]
            else f"{_name(reference_paths[i])} with the candidate's {_name(candidate_paths[j])}"
            for i, j in self.pairs
        ]
        returned = [f"the {side} returns {kind_of(structure)}" for side, structure in self._sides().items()]
        parts = [f"{', '.join(returned)}: compared {'were' if len(compared) > 1 else 'was'} {list_names(compared)}"]
        parts += [
            f"{_outermost(names)} of the {side} {'has' if len(names) == 1 else 'have'} no partner and "
            f"{'was' if len(names) == 1 else 'were'} not compared"
            for side, names in zip(self._sides(), self.lone, strict=True)
            if names
        ]
        return [StructureDifference(OTHER_RESULT, "", "", "; ".join(parts))]

    def note_in(self, report: Report) -> None:
        """Say in a report on the common results which these are."""
        report.structure += self.differences()
        report.conditions.remarks += [self.coverage] if self.coverage else []

    def _sides(self) -> dict[str, Structure]:
        return {"reference": self.reference, "candidate": self.candidate}

    @contextlib.contextmanager
    def applied(self, reference: torch.nn.Module, candidate: torch.nn.Module) -> Iterator[None]:
        """Within the context, both modules return their common results, in one container."""
        build = self.container()
        running: list[torch.nn.Module] = []  # one may be a part of the other, which reads its own result
        with (
            returning(reference, [i for i, _ in self.pairs], build, running),
            returning(candidate, [j for _, j in self.pairs], build, running),
        ):
            yield

    @contextlib.contextmanager
    def applied_to_reference(self, reference: torch.nn.Module) -> Iterator[None]:
        """Within the context, the reference returns the common results; see `selecting` for the candidate."""
        with returning(reference, [i for i, _ in self.pairs], self.container(), []):
            yield

    def selecting(self, tensors_of: Callable[[Any], list[Any]]) -> Callable[[Any], Any]:
        """Return what makes the common results of the candidate's, in the same container.

        Args:
            tensors_of: returns the tensors of a result of the candidate, in order.
        """
        build = self.container()

        def select(result: Any) -> Any:
            tensors = tensors_of(result)
            return build([tensors[j] for _, j in self.pairs])

        return select

    def container(self) -> Callable[[list[Any]], Any]:
        """Return what puts tensors into the reference's container, or into one of its kind if some are left out."""
        if len(self.pairs) == self.reference.tensors:
            return lambda tensors: unflatten(self.reference, tensors)
        paths = self.reference.paths()
        names = [_name(paths[i]) for i, _ in self.pairs]
        if self.reference.kind in ("dict", "namedtuple"):
            return lambda tensors: dict(zip(names, tensors, strict=True))
        return tuple


def common_answers(
    reference: torch.nn.Module,
    candidate: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    options: Options,
) -> Answers | None:
    """Return the results that two modules have in common; None if the containers agree, or no tensor has a partner.

    None, too, where other values than tensors are returned. Both run once, in float64.
    """
    records: list[Records] = []
    for name, module in (("reference", reference), ("candidate", candidate)):
        side = TorchSide.of_options(name, module, args, kwargs, options, cell_paths=[""])
        try:
            records.append(side.run(Run("float64", FORWARD)))
        except CellbridgeError:
            return None  # the comparison itself says what is wrong
    reference_records, candidate_records = records
    return answers_of(reference_records, candidate_records, options)


def answers_of(reference: Records, candidate: Records, options: Options) -> Answers | None:
    """Return the results that two runs have in common; None if the containers agree, or no tensor has a partner.

    Args:
        reference: records of the reference.
        candidate: records of the candidate.
        options: options of the run.
    """
    reference_result, candidate_result = returned(reference), returned(candidate)
    if reference_result is None or candidate_result is None:
        return None
    return answers_between(reference_result, candidate_result, options, is_port=False)


def returned(records: Records) -> Returned | None:
    """Return what a network returned in a run; None if it raised."""
    if records.result is None:
        return None
    return Returned(records.result, [records.values[key] for key in records.root_keys(OUTPUT)])


def answers_between(reference: Returned, candidate: Returned, options: Options, *, is_port: bool) -> Answers | None:
    """Return the results that two networks have in common; see `answers_of`.

    Args:
        reference: what the reference returns.
        candidate: what the candidate returns.
        options: options of the run.
        is_port: whether the candidate is a port, which may return the same tensors in another container.
    """
    structures = reference.structure, candidate.structure
    if not match_results(*structures, is_port=is_port).differences:
        return None
    if any(map(_holds_values, structures)) or _is_other_order(*structures):
        return None
    pairs = _pair([reference.arrays, candidate.arrays], *structures)
    if not pairs or (options.loss is not None and len(pairs) < reference.structure.tensors):
        return None  # a loss reads the reference's own result
    return Answers(*structures, pairs)


def _pair(results: Sequence[list[Array]], reference: Structure, candidate: Structure) -> list[tuple[int, int]]:
    """Pair tensors of one shape by name, then by values, by position, by order, and by shape."""
    names = [[_name(path).rpartition(".")[2] for path in structure.paths()] for structure in (reference, candidate)]
    if any(len(arrays) != len(labels) for arrays, labels in zip(results, names, strict=True)):
        return []  # a tensor that is returned twice
    free = [list(range(len(arrays))) for arrays in results]
    pairs: list[tuple[int, int]] = []

    def pair_where(agree: Callable[[int, int], bool]) -> None:
        for i in list(free[0]):
            partners = [j for j in free[1] if results[0][i].shape == results[1][j].shape and agree(i, j)]
            if partners:
                nearest = min(partners, key=lambda j: _distance(results[0][i], results[1][j]))
                pairs.append((i, nearest))
                free[0].remove(i)
                free[1].remove(nearest)

    whole = [[_name(path) for path in structure.paths()] for structure in (reference, candidate)]
    counts = [Counter(labels) for labels in names]
    pair_where(lambda i, j: whole[0][i] == whole[1][j] and not _is_position(whole[0][i]))
    pair_where(
        lambda i, j: (
            names[0][i] == names[1][j]
            and counts[0][names[0][i]] == counts[1][names[1][j]] == 1
            and not _is_position(names[0][i])
        )
    )
    pair_where(lambda i, j: _distance(results[0][i], results[1][j]) <= CLOSE)
    pair_where(lambda i, j: whole[0][i] == whole[1][j])
    if [results[0][i].shape for i in free[0]] == [results[1][j].shape for j in free[1]]:
        return sorted([*pairs, *zip(*free, strict=True)])  # what is nearest to a wrong result may be another one
    shapes = Counter(results[0][i].shape for i in free[0])
    pair_where(lambda i, j: shapes[results[0][i].shape] == 1 or len(free[0]) == len(free[1]))
    return sorted(pairs)


def _distance(reference: Array, candidate: Array) -> float:
    """Return how far two arrays of one shape are apart, relative to the first; infinite if that isn't known."""
    if not reference.size or reference.dtype.kind not in "fiub" or candidate.dtype.kind not in "fiub":
        return np.inf
    a, b = reference.astype(np.float64), candidate.astype(np.float64)
    apart, length = float(np.linalg.norm(a - b)), float(np.linalg.norm(a))
    return apart / length if length else (np.inf if apart else 0.0)


def _name(path: str) -> str:
    """Return the path of a result as people say it: `logits` for `['logits']`, "result" for the only one."""
    return re.sub(r"^\.", "", re.sub(r"\['(\w+)'\]", r".\1", path)) or "result"


def _outermost(names: Sequence[str]) -> str:
    """Return the names up to their first part, each with the number of tensors: `past_key_values (6 tensors)`."""
    counts = Counter(re.split(r"[.\[]", name, maxsplit=1)[0] or name for name in names)
    return list_names([name if count == 1 else f"{name} ({count} tensors)" for name, count in counts.items()])


def _holds_values(structure: Structure) -> bool:
    """Whether a structure has numbers, words or flags beside tensors, which are compared where they stand."""
    is_value = structure.kind == "constant" and structure.constant is not None
    return is_value or any(map(_holds_values, structure.children))


def _is_other_order(reference: Structure, candidate: Structure) -> bool:
    """Whether two named tuples have common fields in another order: who unpacks them takes one for the other."""
    if not reference.kind == candidate.kind == "namedtuple":
        return False
    common = [key for key in reference.keys if key in candidate.keys]
    return common != [key for key in candidate.keys if key in reference.keys]


def _is_position(name: str) -> bool:
    return name == "result" or re.fullmatch(r"(\[?\d+\]?\.?)*", name) is not None


@contextlib.contextmanager
def returning(
    module: torch.nn.Module, places: Sequence[int], build: Callable[[list[Any]], Any], running: list[torch.nn.Module]
) -> Iterator[None]:
    """Within the context, a module returns these of its tensors in another container, unless another one calls it."""
    before = vars(module).get("forward")
    forward = type(module).forward if before is None else lambda _, *args, **kwargs: before(*args, **kwargs)

    def selected(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        running.append(self)
        try:
            result: Any = forward(self, *args, **kwargs)  # type: ignore[no-untyped-call]
        finally:
            running.pop()
        if running:
            return result
        open_containers(result)  # a class that torch doesn't flatten by itself
        tensors = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        return build([tensors[place] for place in places])

    selected.__wrapped__ = type(module).forward  # type: ignore[attr-defined]
    with replaced_method(module, "forward", MethodType(selected, module)):
        yield
