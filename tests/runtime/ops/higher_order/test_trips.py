"""`trips.limit_trips`: loops of the interpreter are counted, all together, and only within the block."""

from __future__ import annotations

import numpy as np
import pytest

from cellbridge.converter import from_onnx
from cellbridge.runtime import CellbridgeError
from cellbridge.runtime.ops.higher_order.trips import limit_trips
from tests.converter.test_onnx_in import model

LOOP = """net (int64 m, float[2] x) => (float[2] y) {
    y = Loop(m, , x) <body = b (int64 i, bool c, float[2] a) => (bool d, float[2] z) {
        d = Identity(c)
        z = Loop(k, , a) <body = e (int64 j, bool f, float[2] g) => (bool h, float[2] l) { h = Identity(f) l = Neg(g) }>
    } >
}"""
SCAN = """net (float[n, 2] x) => (float[2] y) {
    s = Constant<value_floats = [0.0, 0.0]>()
    y = Scan<num_scan_inputs = 1, body = b (float[2] a, float[2] r) => (float[2] t) { t = Add(a, r) }>(s, x)
}"""
X = np.ones(2, np.float32)


def test_trips_of_loops_within_loops_are_counted_together() -> None:
    program = from_onnx(model(LOOP, k=np.array(4)))
    with limit_trips(15):  # 3 around, 12 within
        np.testing.assert_array_equal(program(np.array(3), X), X)
        with pytest.raises(CellbridgeError, match=r"op loop.* failed in Cell .*run more than 15 iterations"):
            program(np.array(3), X)
    program(np.array(30), X)


def test_rows_of_a_scan_are_trips() -> None:
    program = from_onnx(model(SCAN))
    with limit_trips(3):
        program(np.ones((3, 2), np.float32))
    with limit_trips(3), pytest.raises(CellbridgeError, match="run more than 3 iterations"):
        program(np.ones((4, 2), np.float32))


def test_a_loop_without_end_is_stopped_soon() -> None:
    program = from_onnx(model(LOOP, k=np.array(4)))
    with limit_trips(1000), pytest.raises(CellbridgeError, match="run more than 1000 iterations"):
        program(np.array(2**60), X)
