"""What names say where values can't: of equal tensors, the partner beside those of its neighbours is meant."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from ..assembly import Assembly

_NUMBER = re.compile(r"(?:(?<![A-Za-z0-9])|(?<=_l))\d+")
"""The number of a layer, as in `layers.1` or `weight_ih_l1`. `conv1` and `w2` are roles."""


def parent_of(name: str) -> str:
    """Return a name without its last part: parts are divided by dots, or by slashes as in Keras and Orbax."""
    return name[: max(name.rfind("."), name.rfind("/"), 0)]


def last_of(name: str) -> str:
    """Return the last part of a name."""
    return name[max(name.rfind("."), name.rfind("/")) + 1 :]


def kind_of(name: str) -> str:
    """Return a name with `*` for each number: what the names of all layers have in common."""
    return _NUMBER.sub("*", name)


def layer_of(name: str) -> str:
    """Return a name up to its first number, which is that of a layer; empty without one."""
    number = _NUMBER.search(name)
    return name[: number.end()] if number else ""


def numbers_of(name: str) -> list[str]:
    """Return the numbers in a name."""
    return _NUMBER.findall(name)


@dataclass
class NameGuide:
    """What is known of names from the tensors of which it is known what they are made of."""

    assemblies: dict[str, Assembly] = field(default_factory=dict)
    _parents: dict[str, Counter[str]] = field(default_factory=dict)
    _lasts: dict[str, Counter[str]] = field(default_factory=dict)
    _of_kind: dict[str, str] = field(default_factory=dict)
    _of_parent: dict[str, list[str]] = field(default_factory=dict)

    def add(self, name: str, assembly: Assembly) -> None:
        """Learn what a tensor is made of."""
        self.assemblies[name] = assembly
        self._of_kind[kind_of(name)] = name
        self._of_parent.setdefault(parent_of(name), []).append(name)
        for source in assembly.all_names:
            self._parents.setdefault(parent_of(name), Counter())[parent_of(source)] += 1
            self._lasts.setdefault(last_of(name), Counter())[last_of(source)] += 1

    def likeness(self, name: str, source: str) -> tuple[int, ...]:
        """Return how well a source's name fits; greater is better."""
        parents = self._parents.get(parent_of(name), Counter())
        lasts = self._lasts.get(last_of(name), Counter())
        return (
            name == source,
            parents[parent_of(source)],
            lasts[last_of(source)],
            last_of(name) == last_of(source),
            numbers_of(name) == numbers_of(source),
        )

    def analogies(self, name: str) -> Iterator[Assembly]:
        """Yield what a tensor may be made of, as others of its module are, or as that of another layer."""
        for sibling in self.beside(name):
            assembly = self.assemblies[sibling]
            for last in self._last_names(name):
                of_parents = [each.removesuffix(last_of(each)) + last for each in assembly.all_names]
                yield replace(assembly, shape=None, columns=None, from_axes=(0,), axes=(0,)).with_names(of_parents)
        alike = self._of_kind.get(kind_of(name))
        if alike is not None:
            numbers: dict[str, str] = {}
            for old, new in zip(numbers_of(alike), numbers_of(name), strict=True):
                numbers.setdefault(old, new)  # the layer's number comes first
            assembly = self.assemblies[alike]
            renamed = [_NUMBER.sub(lambda n: numbers.get(n.group(), n.group()), each) for each in assembly.all_names]
            yield assembly.with_names(renamed)

    def beside(self, name: str) -> Sequence[str]:
        """Return the known tensors of the same module."""
        return self._of_parent.get(parent_of(name), ())

    def _last_names(self, name: str) -> Iterable[str]:
        known = self._lasts.get(last_of(name), Counter())
        return dict.fromkeys([*(last for last, _ in known.most_common(3)), last_of(name)])
