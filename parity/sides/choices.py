"""Choices that an operation leaves open, and how a side's are replaced by the reference's.

An eigenvector is determined up to its sign, or its phase; those of equal eigenvalues up to a rotation (Golub and Van
Loan, *Matrix Computations*, 4th ed., sections 2.4 and 8.1). The order of equal elements is open in a sort. A side whose
values differ from the reference's in nothing else goes on with the reference's, and its gradients are turned back.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...runtime.ir.types import is_floating
from ..verdicts.deviations import Array, size
from ..verdicts.judge import ROUNDING_FACTOR, epsilon


@dataclass(frozen=True)
class VectorChoice:
    """A boundary with eigenvectors or singular vectors, possibly moved or left out in part.

    Attributes:
        before: boundaries that the value crossed before, as `Key`s, at which it was replaced already.
        source: the decomposition; both factors of a singular value decomposition have the same.
        factor: number of the factor.
        target: the reference's array in float64.
        places: for each vector, the flat indices of its elements: (vectors, elements), or (vectors, elements, 2) for
            complex numbers as pairs of reals.
        values: the eigenvalue or singular value of each vector.
        matrices: the number of the matrix that each vector belongs to.
        labels: the number of each vector in its matrix.
        coupled: whether the choice holds for both factors, except where singular values are zero.
        turns: whether vectors of equal values may be rotated; false for matrices that aren't Hermitian.
    """

    before: frozenset[tuple[str, int, str, str]]
    source: str
    factor: int
    target: Array
    places: Array
    values: Array
    matrices: Array
    labels: Array
    coupled: bool
    turns: bool

    def groups(self, dtype: str) -> list[tuple[Array, bool]]:
        """Return the positions of vectors of equal values, with whether these values are zero.

        Values are equal that an eigenvalue solver in this dtype can't tell apart: their distance is within n units of
        the largest (Golub and Van Loan, section 8.1: the errors of all are bounded by that of the matrix's norm).
        """
        groups: list[tuple[Array, bool]] = []
        for matrix in np.unique(self.matrices):
            (positions,) = np.nonzero(self.matrices == matrix)
            near = len(positions) * epsilon(dtype) * size(self.values[positions])
            order = positions[np.argsort(self.values[positions], kind="stable")] if self.turns else positions
            ends = np.diff(self.values[order]) > near if self.turns else np.ones(len(order) - 1, bool)
            parts = np.split(order, np.flatnonzero(ends) + 1)
            groups += [(part, bool((np.abs(self.values[part]) <= near).all())) for part in parts]
        return groups

    def vectors(self, array: Array) -> Array:
        """Return an array's vectors as the rows of a matrix of real or complex numbers, in double precision."""
        rows = array.reshape(-1)[self.places].astype(np.float64)
        return rows[..., 0] + 1j * rows[..., 1] if rows.ndim == 3 else rows

    def replaced(self, array: Array, rows: Array) -> Array:
        """Return an array with other vectors."""
        result = np.array(array).reshape(-1)
        parts = np.stack([rows.real, rows.imag], -1) if self.places.ndim == 3 else rows
        result[self.places] = parts.astype(result.dtype)
        return result.reshape(array.shape)


@dataclass(frozen=True)
class IndexChoice:
    """A boundary with indices of sorted or largest elements.

    Attributes:
        before: as for vectors.
        target: the reference's indices.
        rows: for each element, the number of the row of `elements` that it points into.
        elements: the sorted elements of the reference in float64, as a matrix with a row for each sort.
    """

    before: frozenset[tuple[str, int, str, str]]
    target: Array
    rows: Array
    elements: Array

    def chosen(self, array: Array, dtype: str) -> Array:
        """Return the indices, with the reference's where both point at equal elements, up to rounding in `dtype`.

        Indices of a row that are less distinct than the reference's stay, since an element can't be sorted twice.
        """
        unit = ROUNDING_FACTOR * epsilon(dtype) if is_floating(self.elements.dtype) else 0.0
        with np.errstate(invalid="ignore"):
            indices = np.asarray(array).astype(np.int64)
            valid = (indices >= 0) & (indices < self.elements.shape[1]) & (indices == array)
            chosen_elements = self.elements[self.rows, np.where(valid, indices, 0)]
            reference_elements = self.elements[self.rows, self.target]
            near = unit * np.array([size(row) for row in self.elements])
            equal = valid & (
                (np.abs(chosen_elements - reference_elements) <= near[self.rows])
                | (chosen_elements == reference_elements)
            )
        for row in np.unique(self.rows[equal & (indices != self.target)]):
            of_row = self.rows == row
            if len(np.unique(indices[of_row])) < len(np.unique(self.target[of_row])):
                equal[of_row] = False
        return np.where(equal, self.target, array).astype(array.dtype)


Choice = VectorChoice | IndexChoice
