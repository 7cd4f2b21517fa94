"""Embedding tables."""

from __future__ import annotations

from typing import Any

from ... import checks
from ...common.dtype import float32
from ...common.initializer import initialize_argument
from ...common.parameter import Parameter
from ...common.tensor import Tensor
from ...functional import indexing
from ...functional.linear_algebra import matmul
from ..cell import Cell
from .math import ClipByNorm


class Embedding(Cell):
    """Looks up rows of a table by index.

    Args:
        vocab_size: number of rows.
        embedding_size: size of a row.
        use_one_hot: whether to compute the product of a one-hot matrix and the table instead.
        embedding_table: an initializer; see `common.initializer.initializer`; "normal" is N(0, 0.01).
        dtype: dtype of the table.
        padding_idx: a row that is initially 0. Unlike in torch, it is trained like the others.

    Attributes:
        embedding_table: Parameter (vocab_size, embedding_size).

    Raises:
        TypeError: a size isn't an int.
        ValueError: a size isn't above 0, `padding_idx` isn't a row, or a tensor given as table has another shape.
    """

    def __init__(
        self,
        vocab_size: int,
        embedding_size: int,
        use_one_hot: bool = False,
        embedding_table: Any = "normal",
        dtype: Any = float32,
        padding_idx: int | None = None,
    ) -> None:
        super().__init__()
        self.vocab_size = checks.positive_int(vocab_size, "vocab_size", of="Embedding")
        self.embedding_size = checks.positive_int(embedding_size, "embedding_size", of="Embedding")
        self.use_one_hot = checks.of_type(use_one_hot, "use_one_hot", bool, of="Embedding")
        self.padding_idx = padding_idx
        shape = (vocab_size, embedding_size)
        table = initialize_argument(embedding_table, shape, dtype, "embedding_table", of="Embedding")
        if padding_idx is not None:
            checks.of_type(padding_idx, "padding_idx", int, of="Embedding")
            checks.in_range(padding_idx, "padding_idx", f"[0, {vocab_size})", of="Embedding")
            rows = table.asnumpy()
            rows[padding_idx] = 0
            table = Tensor(rows)
        self.embedding_table = Parameter(table, name="embedding_table")

    def construct(self, ids: Any) -> Any:
        """Integers of any shape; returns (*shape, embedding_size). `IndexError` for an index without a row."""
        if not self.use_one_hot:
            return indexing.embedding(ids, self.embedding_table)
        dtype = self.embedding_table.dtype
        one_hot = indexing.one_hot(ids, self.vocab_size, Tensor(1, dtype), Tensor(0, dtype))
        return matmul(one_hot, self.embedding_table)

    def extend_repr(self) -> str:
        """Sizes and the row that is initially 0."""
        return (
            f"vocab_size={self.vocab_size}, embedding_size={self.embedding_size}, use_one_hot={self.use_one_hot}, "
            f"padding_idx={self.padding_idx}"
        )


class EmbeddingLookup(Cell):
    """Looks up rows of a table by index; an invalid index gives zeros.

    Args:
        vocab_size: number of rows.
        embedding_size: size of a row.
        param_init: an initializer; see `common.initializer.initializer`.
        target: "CPU" or "DEVICE"; no effect.
        slice_mode: the distribution of the table over devices; no effect.
        manual_shapes: no effect.
        max_norm: rows with a larger norm are scaled down to it after the lookup.
        sparse: must be True for the target "CPU".
        dtype: dtype of the table.

    Attributes:
        embedding_table: Parameter (vocab_size, embedding_size).

    Raises:
        TypeError: a size isn't an int.
        ValueError: a size or `max_norm` isn't above 0, or an argument isn't allowed.
    """

    def __init__(
        self,
        vocab_size: int,
        embedding_size: int,
        param_init: Any = "normal",
        target: str = "CPU",
        slice_mode: str = "batch_slice",
        manual_shapes: Any = None,
        max_norm: float | None = None,
        sparse: bool = True,
        dtype: Any = float32,
    ) -> None:
        super().__init__()
        of = "EmbeddingLookup"
        checks.one_of(target, "target", ("CPU", "DEVICE"), of=of)
        if not checks.of_type(sparse, "sparse", bool, of=of) and target == "CPU":
            raise ValueError(f"For '{of}', 'sparse' must be True where 'target' is 'CPU', but got {sparse}")
        self.vocab_size = checks.positive_int(vocab_size, "vocab_size", of=of)
        self.embedding_size = checks.positive_int(embedding_size, "embedding_size", of=of)
        self.max_norm = None if max_norm is None else checks.in_range(max_norm, "max_norm", "(0, inf)", of=of)
        table = initialize_argument(param_init, (vocab_size, embedding_size), dtype, "param_init", of=of)
        self.embedding_table = Parameter(table, name="embedding_table")

    def construct(self, indices: Any) -> Any:
        """Integers of any shape; returns (*shape, embedding_size)."""
        rows = indexing.embedding_lookup(self.embedding_table, indices)
        return rows if self.max_norm is None else ClipByNorm(-1)(rows, self.max_norm)

    def extend_repr(self) -> str:
        """Sizes and the largest norm."""
        return f"vocab_size={self.vocab_size}, embedding_size={self.embedding_size}, max_norm={self.max_norm}"
