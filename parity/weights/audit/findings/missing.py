"""Tensors of the first checkpoint of which nothing is made, and those that are there again in place of others."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..derivation import Derivation
from ..moments import Sketch
from ..names import kind_of, layer_of
from .finding import LOOK, NOTE, WRONG, Finding, counted, listed


def missing(derivation: Derivation) -> Iterator[Finding]:
    """Yield what isn't used, and what is used instead of it."""
    used_kinds = {kind_of(n) for origin in derivation.origins.values() for n in (*origin.sources, *origin.equals)}
    by_kind: dict[str, list[str]] = {}
    expected = {n for name in derivation.unknown if (a := derivation.expected(name)) is not None for n in a.names}
    expected |= {n for name, a in derivation.stated.items() if not derivation.is_as_stated(name) for n in a.names}
    for name in derivation.unused:
        if _is_one_of_many(derivation, name):
            continue
        if name not in expected:  # else, what should be made of it is named
            by_kind.setdefault(kind_of(name), []).append(name)
    alone: list[str] = []
    used_layers = {layer_of(n) for origin in derivation.origins.values() for n in (*origin.sources, *origin.equals)}
    for kind, names in by_kind.items():
        is_derived = all(_is_derived(derivation.before[name]) for name in names)
        repeated = _repeated(derivation, kind)
        if is_derived and (kind not in used_kinds or all(derivation.before[name].error == 0 for name in names)):
            yield _finding(NOTE, names, "it is no weight: counted, constant, or computed by a formula")
        elif repeated:
            yield Finding(
                WRONG,
                "repeated",
                tuple(repeated),
                f"{listed(repeated)} have the values of one tensor, and {listed(names)} is used nowhere",
                f"both come from {listed(derivation.origins[repeated[0]].sources)}",
                "give each its own source: a loop counts twice, or a name is misspelt",
            )
        elif kind not in used_kinds or used_layers.isdisjoint(map(layer_of, names)):
            alone += names
        else:
            others = sum(kind_of(n) == kind for n in derivation.before) - len(names)
            are = "is" if others == 1 else "are"
            yield _finding(WRONG, names, f"{counted(others, 'other')} of the kind {listed([kind])} {are} used")
    if alone:
        yield _finding(LOOK, alone, "none of their kinds is used, or nothing of their layers")


def _finding(rank: str, names: list[str], evidence: str) -> Finding:
    kinds = dict.fromkeys(map(kind_of, names))
    what = listed(names) if len(names) <= len(kinds) or len(names) < 4 else listed(kinds)
    count = f"{len(names)} tensors: " if len(names) > 1 else ""
    return Finding(
        rank, "missing", tuple(names), f"nothing is made of {count}{what}", evidence,
        "if the network needs it, add it to the conversion; if not, drop it by name",
    )  # fmt: skip


def _is_one_of_many(derivation: Derivation, name: str) -> bool:
    """Whether a tensor is constant, and there are as many like it after as before: which is which can't be told."""
    of_tensor = derivation.before[name]
    if not of_tensor.is_constant:
        return False
    before, after = (
        sum(
            s.is_constant and (s.tensor.size, s.smallest) == (of_tensor.tensor.size, of_tensor.smallest)
            for s in of_side
        )
        for of_side in (derivation.before.values(), derivation.after.values())
    )
    return after >= before


def _is_derived(of_tensor: Sketch) -> bool:
    """Whether a tensor is no weight: whole numbers, all equal, or numbers that a formula gives, such as frequencies."""
    tensor = of_tensor.tensor
    if of_tensor.is_constant or tensor.size < 2 or of_tensor.error == 0:
        return True
    if max((*tensor.shape, 1)) != tensor.size or tensor.size < 4:
        return False
    values = tensor.read().reshape(-1).astype(np.float64)
    steps = np.diff(values)
    ratios = values[1:] / values[:-1] if (values > 0).all() else np.zeros(1)
    return bool(np.ptp(steps) <= 1e-4 * np.abs(steps).max() or (ratios.size > 1 and np.ptp(ratios) <= 1e-3))


def _repeated(derivation: Derivation, kind: str) -> list[str]:
    """Return the tensors that come from one source of a kind, of which each other tensor has its own."""
    made_of: dict[tuple[str, str], list[str]] = {}
    for name, origin in derivation.origins.items():
        is_whole = len(origin.sources) == 1 and origin.join.assembly.rows is None
        if is_whole and kind_of(origin.sources[0]) == kind and not derivation.after[name].is_constant:
            made_of.setdefault((origin.sources[0], kind_of(name)), []).append(name)
    return next((names for names in made_of.values() if len(names) > 1), [])
