"""Tensors that are made in another way than the others of their kind: a layer that was transposed, another factor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...assembly import Assembly
from ...computed import Computed
from ..derivation import Derivation
from ..names import kind_of, layer_of, numbers_of
from .finding import LOOK, WRONG, Finding, counted, listed

Form = tuple[Any, ...]
COARSE = 4
"""How much of a form tensors of other shapes have in common: sources and axes, but not which rows are taken."""


def unlike_their_kind(derivation: Derivation) -> Iterator[Finding]:
    """Yield the tensors whose form differs from that of most of their kind."""
    said: set[str] = set()
    for coarse in (True, False):
        groups: dict[tuple[object, ...], dict[str, Form]] = {}
        for name, origin in derivation.origins.items():
            of_tensor = derivation.after[name]
            if not of_tensor.is_constant and not origin.join.unknown:
                form = form_of(origin.join.assembly)
                shape = () if coarse else of_tensor.tensor.shape
                groups.setdefault((kind_of(name), *shape), {})[name] = form[:COARSE] if coarse else form
        for (kind, *_), forms in groups.items():
            if finding := _unlike(derivation, str(kind), forms):
                if said.isdisjoint(finding.tensors):
                    yield finding
                said |= {*finding.tensors}


def _unlike(derivation: Derivation, kind: str, forms: Mapping[str, Form]) -> Finding | None:
    """Return what is said of tensors of one kind that are made in several ways; None if there is nothing to say."""
    if len(set(forms.values())) < 2 or _is_of_several_roles(derivation, forms):
        return None
    (usual, count), *_ = Counter(forms.values()).most_common()
    unlike = [name for name, form in forms.items() if form != usual]
    is_clear = count > len(forms) / 2
    return Finding(
        WRONG if is_clear else LOOK,
        "unlike the others",
        tuple(unlike if is_clear else forms),
        f"{listed(unlike)} is made in another way than {counted(count, 'other')} of the kind {listed([kind])}",
        f"{in_words(derivation.origins[unlike[0]].join.assembly)}; the others: "
        f"{in_words(next(derivation.origins[n].join.assembly for n, f in forms.items() if f == usual))}",
        "convert all layers alike",
    )


def _is_of_several_roles(derivation: Derivation, forms: Mapping[str, Form]) -> bool:
    """Whether a number in the names, which isn't a layer's, tells the form: `ln_1` and `ln_2` of each layer."""
    differ_in_sources_alone = len({form[1:] for form in forms.values()}) == 1
    numbers = {name: numbers_of(name) for name in forms}
    for position in range(len(next(iter(numbers.values())))):
        by_number: dict[str, list[Form]] = {}
        for name, form in forms.items():
            by_number.setdefault(numbers[name][position], []).append(form)
        counts = [len(alike) for alike in by_number.values()]
        is_told = all(len(set(alike)) == 1 for alike in by_number.values())
        if is_told and (min(counts) > 1 or (differ_in_sources_alone and max(counts) > 1)):
            return True
    if not differ_in_sources_alone or len({frozenset(form[0]) for form in forms.values()}) == 1:
        return False
    _, count = Counter(forms.values()).most_common(1)[0]
    return count <= len(forms) / 2 and not _may_be_exchanged(derivation, list(forms))


def _may_be_exchanged(derivation: Derivation, names: Sequence[str]) -> bool:
    """Whether each tensor could be made as another one of its kind is: what that needs is there."""
    for name in names:
        for other in names:
            assembly = derivation.origins[other].join.assembly
            own, layer = layer_of(derivation.origins[name].sources[0]), layer_of(assembly.names[0])
            needed = [own + source[len(layer) :] for source in assembly.names if layer_of(source) == layer]
            if not own or not needed or any(source not in derivation.before for source in needed):
                return False
    return True


def form_of(assembly: Assembly) -> Form:
    """Return how a tensor is made, without the numbers in its sources' names: sources, computations, and the layout."""
    computed = [source if isinstance(source, Computed) else None for source in assembly.sources]
    return (
        tuple(map(kind_of, assembly.all_names)),
        tuple(None if c is None else (c.form, tuple(key for key, _ in c.numbers), _rounded(c)) for c in computed),
        assembly.from_axes,
        assembly.axes,
        assembly.rows,
        assembly.columns,
    )


def _rounded(computed: Computed) -> tuple[str, ...]:
    numbers = (n for _, value in computed.numbers for n in (value if isinstance(value, tuple) else (value,)))
    return tuple(f"{number:.3g}" for number in numbers)


def in_words(assembly: Assembly) -> str:
    """Return how a tensor is made, for a sentence."""
    parts = [listed(str(source) for source in assembly.sources)]
    if len(assembly.sources) > 1:
        parts[0] = f"{parts[0]}, joined"
    if assembly.from_axes != (0,):
        parts.append(f"with its axes in another order ({', '.join(map(str, assembly.from_axes))} first)")
    if assembly.rows is not None:
        parts.append("with its rows in another order" if len(assembly.sources) == 1 else "rows in another order")
    if assembly.columns is not None:
        parts.append("with its columns in another order")
    return ", ".join(parts)
