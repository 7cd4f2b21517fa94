"""The function for ONNX TfIdfVectorizer: counts of n-grams."""

from __future__ import annotations

from typing import Any

import numpy as np

from .registry import onnx_function


@onnx_function("TfIdfVectorizer", "X", symbolic=False)
def tf_idf_vectorizer(
    X: Any, *, max_gram_length: int, max_skip_count: int, min_gram_length: int, mode: str,
    ngram_counts: tuple[int, ...], ngram_indexes: tuple[int, ...], pool_int64s: tuple[int, ...],
    weights: tuple[float, ...] | None = None,
) -> Any:  # fmt: skip
    """TfIdfVectorizer-9: how often each n-gram of a pool occurs ("TF"), or whether it does ("IDF"), weighted."""
    places: dict[tuple[int, ...], int] = {}
    for n, start in enumerate(ngram_counts, start=1):
        stop = ngram_counts[n] if n < len(ngram_counts) else len(pool_int64s)
        for first in range(start, stop, n):
            places[tuple(pool_int64s[first : first + n])] = len(places)
    rows = X if X and isinstance(X[0], tuple) else (X,)
    counts = np.zeros((len(rows), max(ngram_indexes) + 1), np.float32)
    scale = np.ones(len(places)) if weights is None else np.asarray(weights)
    for row, words in zip(counts, rows, strict=True):
        for n in range(min_gram_length, min(max_gram_length, len(ngram_counts), len(words)) + 1):
            widest = (len(words) - 1) // (n - 1) if n > 1 else 1  # the largest step that fits an n-gram
            for skip in range(1, min((max_skip_count if n > 1 else 0) + 1, widest) + 1):
                for first in range(len(words) - (n - 1) * skip):
                    index = places.get(tuple(words[first : first + n * skip : skip][:n]))
                    if index is not None:
                        row[ngram_indexes[index]] += 1
    if mode != "TF":
        factors = np.ones(counts.shape[1])
        factors[list(ngram_indexes)] = scale
        counts = (((counts > 0) if mode == "IDF" else counts) * factors).astype(np.float32)
    return counts if rows is X else counts[0]
