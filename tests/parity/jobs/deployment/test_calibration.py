"""Calibration data is read, or refused with the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cellbridge.parity.jobs.deployment.calibration import read_calibration
from cellbridge.runtime.errors import UsageError
from cellbridge.runtime.ir.dims import symbol
from cellbridge.runtime.ir.types import BOOL, FLOAT32, Type, Value

INPUTS = [Value("x", Type(FLOAT32, (2, 4))), Value("mask", Type(BOOL, (symbol("n"), 4)))]
X, MASK = np.ones((2, 4), np.float32), np.ones((3, 4), bool)


def write(path: Path, **arrays: Any) -> str:
    np.savez(path / "data.npz", **arrays)
    return str(path / "data.npz")


def test_one_call(tmp_path: Path) -> None:
    (sample,) = read_calibration(write(tmp_path, x=X, mask=MASK), INPUTS)
    assert sample["x"].shape == (2, 4)
    assert sample["mask"].shape == (3, 4)


def test_several_calls_along_a_first_axis(tmp_path: Path) -> None:
    data = read_calibration(write(tmp_path, x=np.stack([X, 2 * X]), mask=np.stack([MASK, MASK])), INPUTS)
    assert [float(sample["x"][0, 0]) for sample in data] == [1.0, 2.0]


def test_floating_point_numbers_of_another_precision_are_converted(tmp_path: Path) -> None:
    (sample,) = read_calibration(write(tmp_path, x=X.astype(np.float64), mask=MASK), INPUTS)
    assert sample["x"].dtype == np.float32


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": X}, "the model takes x, mask; .* holds x"),
        ({"x": X, "mask": MASK, "more": X}, "holds x, mask, more"),
        ({"x": X[:, :3], "mask": MASK}, r"x must be float32\[2, 4\], or several .* given float32\[2, 3\]"),
        ({"x": X, "mask": MASK.astype(np.int64)}, "mask must be bool, given int64"),
        ({"x": np.where(X > 0, np.nan, X), "mask": MASK}, r"x isn't finite at \[0, 0\]"),
        ({"x": np.where(X > 0, np.inf, X), "mask": MASK}, "x isn't finite"),
        ({"x": np.stack([X, X]), "mask": np.stack([MASK] * 3)}, "different numbers of samples: x 2, mask 3"),
        ({"x": np.zeros((0, 2, 4), np.float32), "mask": np.zeros((0, 3, 4), bool)}, "holds no sample"),
        ({"x": np.float32(1), "mask": MASK}, r"given float32\[\]"),
    ],
)
def test_what_does_not_fit(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_calibration(write(tmp_path, **arrays), INPUTS)


def test_no_file_of_arrays(tmp_path: Path) -> None:
    (tmp_path / "data.npz").write_text("no arrays")
    with pytest.raises(UsageError, match=r"is not an \.npz file"):
        read_calibration(str(tmp_path / "data.npz"), INPUTS)


def test_pickles_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, x=np.array([{"an": "object"}], dtype=object), mask=MASK)
    with pytest.raises(UsageError):
        read_calibration(path, INPUTS)
