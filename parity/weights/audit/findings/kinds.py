"""Tensors that are made in another way than the others of their kind: a layer that was transposed, another factor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from ...assembly import Assembly
from ...computed import Computed
from ..derivation import Derivation
from ..names import kind_of, numbers_of
from .finding import LOOK, WRONG, Finding, listed

Form = tuple[object, ...]


def unlike_their_kind(derivation: Derivation) -> Iterator[Finding]:
    """Yield the tensors whose form differs from that of most of their kind."""
    groups: dict[tuple[str, tuple[int, ...]], dict[str, Form]] = {}
    for name, origin in derivation.origins.items():
        of_tensor = derivation.after[name]
        if not of_tensor.is_constant and not origin.join.unknown:
            form = form_of(origin.join.assembly)
            groups.setdefault((kind_of(name), of_tensor.tensor.shape), {})[name] = form
    for (kind, _), forms in groups.items():
        if len(forms) < 2:
            continue
        (usual, count), *others = Counter(forms.values()).most_common()
        if not others:
            continue
        if _is_of_several_roles(forms):
            continue
        unlike = [name for name, form in forms.items() if form != usual]
        is_clear = count > len(forms) / 2
        yield Finding(
            WRONG if is_clear else LOOK,
            "unlike the others",
            tuple(unlike if is_clear else forms),
            f"{listed(unlike)} is made in another way than {count} others of the kind {kind!r}",
            f"{in_words(derivation.origins[unlike[0]].join.assembly)}; the others: "
            f"{in_words(next(derivation.origins[n].join.assembly for n, f in forms.items() if f == usual))}",
            "convert all layers alike",
        )


def _is_of_several_roles(forms: Mapping[str, Form]) -> bool:
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
    return differ_in_sources_alone and len(forms) == 2


def form_of(assembly: Assembly) -> Form:
    """Return how a tensor is made, without the numbers in its sources' names."""
    sources = tuple(
        (s.form, tuple(map(kind_of, s.of)), tuple(key for key, _ in s.numbers if key != "plus"), _rounded(s))
        if isinstance(s, Computed)
        else kind_of(s)
        for s in assembly.sources
    )
    return sources, assembly.from_axes, assembly.axes, assembly.rows, assembly.columns


def _rounded(computed: Computed) -> tuple[str, ...]:
    return tuple(f"{value:.3g}" for _, value in computed.numbers if isinstance(value, float))


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
