"""ONNX text operators on words that are encoded as numbers."""

from __future__ import annotations

import itertools
from typing import Any

from ....runtime.errors import ConversionError
from ....runtime.ir.types import FLOAT32, Type
from ...unsupported import Unsupported
from .context import Context
from .table import onnx


@onnx("TfIdfVectorizer", values=("X",))
def tf_idf_vectorizer(
    context: Context, X: Any, *, max_gram_length: int, max_skip_count: int, min_gram_length: int, mode: str,
    ngram_counts: Any, ngram_indexes: Any, pool_int64s: Any = None, pool_strings: Any = None, weights: Any = None,
) -> Any:  # fmt: skip
    """TfIdfVectorizer-9(X) -> Y"""
    if pool_int64s is None or pool_strings is not None:
        raise Unsupported("strings")
    if mode not in ("TF", "IDF", "TFIDF"):
        raise ConversionError(f"needed the mode TF, IDF or TFIDF, given {mode!r}")
    bounds = [*ngram_counts, len(pool_int64s)]
    if bounds[0] < 0 or any(a > b for a, b in itertools.pairwise(bounds)):
        raise ConversionError(f"ngram_counts must rise from 0 to the length of the pool, {len(pool_int64s)}")
    grams = sum(len(range(a, b, n)) for n, (a, b) in enumerate(itertools.pairwise(bounds), start=1))
    if grams == 0 or len(ngram_indexes) != grams or min(ngram_indexes, default=-1) < 0:
        raise ConversionError(f"needed {grams} ngram_indexes, one for each n-gram of the pool, none of them negative")
    if weights is not None and len(weights) != grams:
        raise ConversionError(f"needed {grams} weights, one for each n-gram of the pool, given {len(weights)}")
    if not 1 <= min_gram_length <= max_gram_length:
        raise ConversionError("needed min_gram_length from 1 to max_gram_length")
    types = (Type(FLOAT32, (*X.shape[:-1], max(ngram_indexes) + 1)),)
    return context.runtime_shaped(
        "TfIdfVectorizer", X, types=types, max_gram_length=max_gram_length, max_skip_count=max_skip_count,
        min_gram_length=min_gram_length, mode=mode, ngram_counts=tuple(ngram_counts),
        ngram_indexes=tuple(ngram_indexes), pool_int64s=tuple(pool_int64s),
        weights=None if weights is None else tuple(weights),
    )  # fmt: skip
