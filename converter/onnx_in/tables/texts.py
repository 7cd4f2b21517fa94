"""ONNX operators on texts, as far as words are numbers."""

from __future__ import annotations

from typing import Any

from ....runtime.ir.types import FLOAT32, Type
from ..context import Context
from ..table import Unsupported, onnx


@onnx("TfIdfVectorizer", values=("X",))
def tf_idf_vectorizer(
    context: Context, X: Any, *, max_gram_length: int, max_skip_count: int, min_gram_length: int, mode: str,
    ngram_counts: Any, ngram_indexes: Any, pool_int64s: Any = None, pool_strings: Any = None, weights: Any = None,
) -> Any:  # fmt: skip
    """TfIdfVectorizer-9(X) -> Y"""
    if pool_int64s is None or pool_strings is not None:
        raise Unsupported("strings")
    types = (Type(FLOAT32, (*X.shape[:-1], max(ngram_indexes) + 1)),)
    return context.by_value(
        "TfIdfVectorizer", X, types=types, max_gram_length=max_gram_length, max_skip_count=max_skip_count,
        min_gram_length=min_gram_length, mode=mode, ngram_counts=tuple(ngram_counts),
        ngram_indexes=tuple(ngram_indexes), pool_int64s=tuple(pool_int64s),
        weights=None if weights is None else tuple(weights),
    )  # fmt: skip
