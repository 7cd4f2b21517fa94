"""`Replay`: a side's choices are replaced by the reference's at boundaries; gradients are turned back."""

from __future__ import annotations

import numpy as np

from ..verdicts.deviations import Array
from .choices import IndexChoice, VectorChoice
from .records import Key, value_key
from .run import Run


class Replay:
    """Replaces the choices of one run by the reference's.

    Args:
        run: the settings of the run.
    """

    def __init__(self, run: Run) -> None:
        self._choices = run.reference.choices
        self._dtype = run.dtype
        self._crossed: set[Key] = set()
        self._turns: dict[Key, list[tuple[Array, Array]]] = {}
        self._shared: dict[tuple[str, int, int, tuple[int, ...]], Array] = {}

    def value(self, key: Key, array: Array) -> Array:
        """Return a value with the reference's choice; as it is where there is none, or it isn't comparable."""
        choice = self._choices.get(key)
        if choice is None or array.shape != choice.target.shape or choice.before & self._crossed:
            return array
        self._crossed.add(key)
        if isinstance(choice, IndexChoice):
            return choice.chosen(array, self._dtype)
        rows = choice.vectors(array)
        if not np.isfinite(rows).all():
            return array
        self._turns[key] = [
            (group, self._turn(choice, group, zero, rows)) for group, zero in choice.groups(self._dtype)
        ]
        return choice.replaced(array, _turned(rows, self._turns[key]))

    def gradient(self, key: Key, array: Array) -> Array:
        """Return the gradient of a value before its choice was replaced, from that of the value after.

        What crosses a boundary forward is returned as it is.
        """
        if value_key(key) == key:
            return array
        turns, choice = self._turns.get(value_key(key)), self._choices.get(value_key(key))
        if turns is None or not isinstance(choice, VectorChoice) or array.shape != choice.target.shape:
            return array
        back = [(group, np.conj(turn.T)) for group, turn in turns]
        return choice.replaced(array, _turned(choice.vectors(array), back))

    def _turn(self, choice: VectorChoice, group: Array, zero: bool, rows: Array) -> Array:
        """The orthogonal (or unitary) matrix that turns vectors of equal values into the reference's.

        It is the polar factor of their products, which minimizes the distance (Golub and Van Loan, section 6.4.1).
        """
        coupled = choice.coupled and not zero
        labels = tuple(int(label) for label in choice.labels[group])
        name = (choice.source, -1 if coupled else choice.factor, int(choice.matrices[group[0]]), labels)
        inverse = coupled and choice.factor > 0  # u @ diag(s) @ v stays as it is if one factor turns back
        if name not in self._shared:
            u, _, v = np.linalg.svd(choice.vectors(choice.target)[group] @ np.conj(rows[group].T))
            self._shared[name] = np.conj(u @ v) if inverse else u @ v
        return np.conj(self._shared[name]) if inverse else self._shared[name]


def _turned(rows: Array, turns: list[tuple[Array, Array]]) -> Array:
    result = rows.copy()
    for group, turn in turns:
        result[group] = turn @ rows[group]
    return result
