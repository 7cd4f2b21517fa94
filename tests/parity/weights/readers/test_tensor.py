"""A stored tensor is read whole, or by rows that fit into memory."""

from __future__ import annotations

import numpy as np
import pytest

from cellbridge.parity.weights.readers.tensor import StoredTensor, stored_array


@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (7,), (7, 3), (3, 2, 2)])
def test_chunks_are_all_rows_in_order(shape: tuple[int, ...]) -> None:
    array = np.arange(float(np.prod(shape)), dtype=np.float32).reshape(shape)
    tensor = stored_array("a", array)
    np.testing.assert_array_equal(tensor.read(), array)
    chunks = list(tensor.chunks(24))
    assert [start for start, _ in chunks] == list(np.cumsum([0, *(len(rows) for _, rows in chunks)]))[:-1]
    if array.size:
        np.testing.assert_array_equal(np.concatenate([rows for _, rows in chunks]).reshape(shape), array)


def test_a_size_that_a_file_claims_is_not_allocated() -> None:
    assert StoredTensor("a", (2**40, 2**40), "float32", lambda start, stop: np.zeros(0)).size == 2**80
