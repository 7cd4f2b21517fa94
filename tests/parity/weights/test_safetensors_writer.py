"""A safetensors file that is written tensor by tensor is as safetensors reads it, and is there whole or not at all."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as of_numpy

from cellbridge.parity.weights.arrangements import Array
from cellbridge.parity.weights.safetensors_writer import write_tensors
from cellbridge.runtime.errors import UsageError

ARRAYS = of_numpy.arrays(
    st.sampled_from([np.float32, np.float64, np.float16, np.int64, np.uint8, np.bool_]),
    of_numpy.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3),
)


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), ARRAYS, max_size=5))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, arrays: dict[str, Array]) -> None:
    arrays.pop("__metadata__", None)
    path = tmp_path_factory.mktemp("written") / "a.safetensors"
    assert write_tensors(str(path), arrays, arrays.__getitem__) == {n: a.shape for n, a in arrays.items()}
    read = safetensors.numpy.load_file(path)
    assert read.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(read[name], array)
        assert read[name].dtype == array.dtype


def test_bfloat16_and_views_are_written(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    array = np.arange(6.0).reshape(2, 3).astype(ml_dtypes.bfloat16)
    write_tensors(str(path), ["t"], lambda name: array.T)
    assert safetensors.torch.load_file(path)["t"].tolist() == array.T.tolist()


@pytest.mark.parametrize("wrong", ["dtype", "source"])
def test_a_failure_leaves_no_file(tmp_path: Path, wrong: str) -> None:
    def make(name: str) -> Array:
        if name == "b" and wrong == "source":
            raise UsageError("can't read it")
        return np.ones(3, np.complex64 if name == "b" else np.float32)

    path = tmp_path / "a.safetensors"
    path.write_text("as before")
    with pytest.raises(UsageError, match="which safetensors doesn't have" if wrong == "dtype" else "can't read it"):
        write_tensors(str(path), ["a", "b"], make)
    assert path.read_text() == "as before"
    assert list(tmp_path.iterdir()) == [path]
