"""The cases of the benchmark as data: planted faults, and pairs that only look different."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .pairs import Pair

SOUND = "sound"
ANY_NAME = "value"  # of a number in an expression, which has no name of its own
UNKNOWN = "?"  # a value of an attribute that one of the two APIs doesn't have


@dataclass(frozen=True)
class Either:
    """A value of an attribute that can be written in several ways."""

    ways: tuple[Any, ...]


@dataclass(frozen=True)
class Case:
    """A reference and a candidate, and what is known of the difference.

    Attributes:
        name: `<network>/<what is wrong>`, unique within a kind.
        network: name of the network.
        kind: "torch", "opaque", "onnx", "files", "port", "training", "two", "hidden" or "sound".
        cells: paths of the Cells that are wrong; empty for a sound pair.
        cause: what is wrong, in a word.
        expected: what a tool should say of the cause: `kind` (one or several); `name` (alternatives are divided
            by `|`), `reference` and `candidate` of an attribute; or `words` that its summary contains.
        words: words that must all occur in a correct text on the cause, in any case; alternatives are divided by `|`.
        pair: makes the pair to compare.
        same_in_float64: the outputs in float64 are the same: the fault shows in gradients or in the working dtype
            only, which `proving` doesn't compare for such a candidate.
    """

    name: str
    network: str
    kind: str
    cells: tuple[str, ...]
    cause: str
    expected: Sequence[Mapping[str, Any]]
    words: tuple[str, ...]
    pair: Callable[[], Pair] = field(compare=False)
    same_in_float64: bool = False

    @property
    def is_fault(self) -> bool:
        """Whether something is wrong."""
        return self.kind != SOUND


@dataclass(frozen=True)
class Fault:
    """A fault in a copy of a torch module.

    Attributes:
        label: what is wrong, unique within the network.
        cells: paths of the Cells that are wrong.
        cause: what is wrong, in a word: "eps", "residual".
        expected: as in `Case`.
        plant: makes the mistake in a copy of the network.
        words: as in `Case`.
        train: compare in train mode, which the fault needs to show.
    """

    label: str
    cells: tuple[str, ...]
    cause: str
    expected: Mapping[str, Any]
    plant: Callable[[Any], object]
    words: tuple[str, ...] = ()
    train: bool = False
