"""`Conditions`: settings that make a verdict say less than one by the computed bars on all that a network computes."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from ..options import Options


@dataclass
class Conditions:
    """Settings that a verdict has to name, since it says less with them.

    Attributes:
        options: the settings of the comparison: `rtol`, `atol`, `grads`, `only` and `skip` are such conditions.
        sources: where these were given, by their names, as "given on the command line"; without those that a program
            gives. With "probe", a file has switched further inputs off, which the user needn't know.
        remarks: what else makes the verdict say less, as "at the declared sizes alone".
    """

    options: Options = field(default_factory=Options)
    sources: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    @property
    def tolerance(self) -> str:
        """The tolerance in words, `the tolerance atol=1e-5`; empty where the bars are computed."""
        tolerances = {"rtol": self.options.rtol, "atol": self.options.atol}
        parts = [f"{name}={_number(value)}" for name, value in tolerances.items() if value is not None]
        return f"the tolerance {' and '.join(parts)}" if parts else ""

    @property
    def within(self) -> str:
        """The tolerance as a phrase that follows a verdict; empty where the bars are computed."""
        source = self._source("rtol", "atol")
        return f"within {self.tolerance}{source}, which replaces the computed bar" if self.tolerance else ""

    def in_words(self, cells: Collection[str] = ()) -> list[str]:
        """Return the conditions as phrases that follow "parity holds".

        Args:
            cells: paths of the Cells of the network.
        """
        return list(self._phrases(cells))

    def _phrases(self, cells: Collection[str]) -> Iterator[str]:
        if self.within:
            yield self.within
        if not self.options.grads:
            yield f"without gradients{self._source('grads')}"
        if not self.options.probe and "probe" in self.sources:
            yield f"without further inputs{self._source('probe')}"
        yield from self.remarks
        if left_out := sum(not self.options.selects(path) for path in cells):
            yield f"without {left_out} of {len(cells)} Cells, which are left out{self._source('only', 'skip')}"

    def _source(self, *names: str) -> str:
        """Return in parentheses where options were given; empty if a program gives them."""
        sources = dict.fromkeys(self.sources[name] for name in names if name in self.sources)
        return f" ({' and '.join(sources)})" if sources else ""

    def to_dict(self, cells: Collection[str] = ()) -> dict[str, Any]:
        """Return JSON values."""
        options = self.options
        return {
            "rtol": options.rtol,
            "atol": options.atol,
            "grads": options.grads,
            "only": list(options.only),
            "skip": list(options.skip),
            "sources": dict(self.sources),
            "in_words": self.in_words(cells),
        }


def _number(value: float) -> str:
    """Return a number as people write it: `1e9`, `0.001`, `1e-5`."""
    mantissa, e, exponent = f"{value:g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if e else mantissa
