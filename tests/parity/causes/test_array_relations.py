"""What is said of an array that comes from another one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from cellbridge.parity.causes.array_relations import relation
from cellbridge.parity.sides.records import Array

MATRIX = np.random.default_rng(0).standard_normal((6, 6))
KERNEL = np.random.default_rng(1).standard_normal((4, 3, 5, 5))


@pytest.mark.parametrize(
    ("reference", "change", "words"),
    [
        (MATRIX, np.transpose, "is transposed"),
        (KERNEL, lambda x: x.swapaxes(2, 3), "has axes 2 and 3 transposed"),
        (KERNEL, lambda x: x.transpose(3, 2, 0, 1), "has its axes in the order (3, 2, 0, 1)"),
        (KERNEL, lambda x: x.reshape(x.shape[0], *x.shape[2:], -1).transpose(0, 3, 1, 2),
         "has the reference's numbers in the order of its axes (0, 2, 3, 1)"),
        (KERNEL, lambda x: x.transpose(0, 2, 3, 1).reshape(x.shape),
         "has its numbers flattened with its axes in the order (0, 2, 3, 1)"),
        (MATRIX, lambda x: -x, "is negated"),
        (MATRIX, lambda x: 2.5 * x, "is multiplied by 2.5"),
        (MATRIX, lambda x: x + 0.5, "is larger by 0.5"),
        (MATRIX, np.zeros_like, "is all zeros"),
        (MATRIX, lambda x: x[::-1], "is reversed along axis 0"),
        (KERNEL, lambda x: x[..., ::-1, ::-1], "is reversed along axes 2 and 3"),
        (MATRIX, lambda x: x.astype(np.float16).astype(np.float64), "is rounded to float16"),
        (MATRIX**2, np.sqrt, "has the square roots of the values"),
        (MATRIX, np.reciprocal, "has the inverses of the values"),
        (MATRIX, lambda x: np.roll(x, 3, 1), "has its halves exchanged along axis 1"),
        (MATRIX, lambda x: np.roll(x, 1, 1), "is rolled by 1 along axis 1"),
        (MATRIX, lambda x: x[[0, 2, 1, 3, 4, 5]], "is in another order along axis 0 (0, 2, 1, 3, 4, 5)"),
        (MATRIX, lambda x: x[[0, 1, 0, 1, 2, 3]], "has rows 2 to 5 shifted by 2: row 2 is the reference's 0"),
        (MATRIX, lambda x: x[[1, 2, 3, 4, 5, 5]], "has rows 0 to 4 shifted by 1: row 0 is the reference's 1"),
        (MATRIX, lambda x: x[[0, 1, 0, 1, 1, 3]], ""),
        (MATRIX, lambda x: x[:4], "has the shape [4, 6] instead of [6, 6]"),
        (MATRIX, lambda x: np.where(np.arange(36).reshape(6, 6) == 8, 7.0, x), "differs in 1 element, [1, 2],"),
        (MATRIX, lambda x: x * np.nan, "isn't finite"),
        (MATRIX, lambda x: np.tanh(x), ""),
        (MATRIX, lambda x: x, ""),  # the identity is no order of rows
    ],
)  # fmt: skip
def test_the_relation_is_named(reference: Array, change: Callable[[Array], Array], words: str) -> None:
    sentence = relation(reference, np.ascontiguousarray(change(reference)))
    assert sentence.startswith(words)
    assert bool(sentence) == bool(words)


def test_an_exchanged_array_is_named() -> None:
    assert relation(MATRIX, MATRIX + 1, {"layers.1.weight": MATRIX + 1}) == "has the values of layers.1.weight"


def test_markup_in_names_stays_text() -> None:
    assert "\x1b" not in relation(MATRIX, MATRIX + 1, {"a\x1b[31m": MATRIX + 1})


LOWER = np.tril(np.ones((4, 4)))


@pytest.mark.parametrize(
    ("reference", "candidate", "words"),
    [
        (LOWER, -LOWER, "is negated"),
        (LOWER.astype(np.int64), -LOWER.astype(np.int64), "is negated"),
        (LOWER.astype(bool), LOWER.astype(bool).T, "is transposed"),
        (LOWER.astype(bool), np.ones((4, 4), bool), ""),
    ],
)
def test_relations_of_every_dtype(reference: np.ndarray, candidate: np.ndarray, words: str) -> None:
    assert relation(reference, candidate) == words
