"""Tensors that have each other's values, as their names tell: layers in another order, and roles exchanged."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from ..derivation import Derivation
from ..names import kind_of, numbers_of
from .finding import WRONG, Finding, listed

_WORDS = re.compile(r"[A-Za-z]+")
MOST_SIBLINGS = 64
"""The most tensors with the same numbers in their names of which each two are compared."""


def exchanges(derivation: Derivation) -> Iterator[Finding]:
    """Yield layers whose order differs from that of their sources, and tensors with each other's names."""
    yield from _layers(derivation)
    yield from _stacked(derivation)
    yield from _roles(derivation)


def _layers(derivation: Derivation) -> Iterator[Finding]:
    """Yield tensors of one kind whose sources, of one kind, too, aren't in the order of their numbers."""
    by_kinds: dict[tuple[str, str], list[tuple[int, int, str]]] = {}
    for name, origin in derivation.origins.items():
        if len(origin.sources) == 1 and not derivation.after[name].is_constant and not origin.equals:
            source = origin.sources[0]
            numbers, of_source = numbers_of(name), numbers_of(source)
            if len(numbers) == len(of_source) and numbers:
                for place, number in enumerate(numbers):
                    rest = "|".join([*numbers[:place], "", *numbers[place + 1 :]])
                    kinds = f"{kind_of(name)} {rest} {place}", kind_of(source)
                    by_kinds.setdefault(kinds, []).append((int(number), int(of_source[place]), name))
    seen: set[str] = set()
    straight = {kinds[1] for kinds, members in by_kinds.items() if len(members) > 1 and _is_in_order(members)}
    for kinds, members in by_kinds.items():
        in_order = sorted(members)
        sources = [source for _, source, _ in in_order]
        is_reversed = sources == sorted(sources, reverse=True) and kinds[1] not in straight
        if len(set(sources)) != len(sources) or _is_in_order(members) or is_reversed:
            continue
        moved = [name for (_, source, name), own in zip(in_order, sorted(sources), strict=True) if source != own]
        names = tuple(name for name in moved if name not in seen)
        if names:
            seen |= set(names)
            yield _exchanged(derivation, names, "the others are in the order of their numbers")


def _is_in_order(members: Sequence[tuple[int, int, str]]) -> bool:
    """Whether sources are in the order of the tensors that are made of them."""
    sources = [source for _, source, _ in sorted(members)]
    return sources == sorted(sources)


def _stacked(derivation: Derivation) -> Iterator[Finding]:
    """Yield tensors in which others of one kind aren't in the order of their numbers."""
    for name, origin in derivation.origins.items():
        by_kind: dict[str, list[list[int]]] = {}
        for source in origin.join.assembly.all_names:
            by_kind.setdefault(kind_of(source), []).append([int(number) for number in numbers_of(source)])
        mixed = [kind for kind, numbers in by_kind.items() if numbers != sorted(numbers)]
        if mixed:
            order = ", ".join(numbers_of(source)[-1] for source in origin.join.assembly.all_names[:8])
            yield Finding(
                WRONG, "exchanged", (name,), f"{listed([name])} has {listed(mixed)} in another order",
                f"the numbers of its parts are {order}", "put them together in the order of their numbers",
            )  # fmt: skip


def _roles(derivation: Derivation) -> Iterator[Finding]:
    """Yield pairs of tensors of one module each of which has the values of the tensor with the other's name."""
    modules: dict[tuple[str, ...], list[str]] = {}
    for name, origin in derivation.origins.items():
        if len(origin.sources) == 1 and not derivation.after[name].is_constant and not origin.equals:
            modules.setdefault(tuple(numbers_of(name)), []).append(name)
    for names in modules.values():
        for first, second in itertools.combinations(names, 2) if len(names) <= MOST_SIBLINGS else ():
            sources = (derivation.origins[name].sources[0] for name in (first, second))
            roles, of_sources = _difference(first, second), _difference(*sources)
            if roles is not None and of_sources is not None:
                is_crossed = _alike(roles[0], of_sources[1]) and _alike(roles[1], of_sources[0])
                is_straight = _alike(roles[0], of_sources[0]) or _alike(roles[1], of_sources[1])
                if is_crossed and not is_straight:
                    yield _exchanged(
                        derivation, (first, second), "each has the values of the tensor with the other's name"
                    )


def _difference(name: str, other: str) -> tuple[str, str] | None:
    """Return the single words in which two names differ; None if they differ in more."""
    words, other_words = _WORDS.findall(name), _WORDS.findall(other)
    if len(words) != len(other_words):
        return None
    pairs = [(a, b) for a, b in zip(words, other_words, strict=True) if a != b]
    return pairs[0] if len(pairs) == 1 else None


def _alike(word: str, other: str) -> bool:
    """Whether two words may name one role: `q` and `wq`, `k` and `key`."""
    first, second = sorted((word.lower(), other.lower()), key=len)
    return second.startswith(first) or second.endswith(first)


def _exchanged(derivation: Derivation, names: tuple[str, ...], why: str) -> Finding:
    pairs = "; ".join(f"{listed([n])} has the values of {listed(derivation.origins[n].sources)}" for n in names[:4])
    return Finding(
        WRONG, "exchanged", names, f"{listed(names)} are exchanged", f"{pairs}; {why}",
        "give each the source with its own name, or say in the map that the exchange is meant",
    )  # fmt: skip
