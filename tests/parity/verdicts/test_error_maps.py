"""Where in a tensor an error is."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cellbridge.parity.verdicts.error_maps import MAX_ELEMENTS, TILES, WINDOW, error_map

BAR = 1e-3


def test_the_first_plane_is_where_the_error_is_narrow() -> None:
    truth = np.random.default_rng(0).normal(size=(3, 8, 6, 5))
    wrong = truth.copy()
    wrong[:, 2, :, 4] += 2.0
    errors = error_map(wrong, truth, truth, BAR, (1, 2, 3, 4))
    assert errors is not None
    first = errors.planes[0]
    assert first.axes == (1, 3)
    assert first.sizes == (8, 5)
    assert {(y, x) for y, row in enumerate(first.tiles) for x, tile in enumerate(row) if tile > 1} == {(2, 4)}
    assert len(errors.planes) == 6
    assert errors.counts == (3 * 6 * 39, 0, 0, 0, 0, 0, 18, 0)


def test_the_window_has_the_worst_element() -> None:
    truth = np.arange(2 * 10 * 12, dtype=np.float64).reshape(2, 10, 12)
    wrong = truth.copy()
    wrong[1, 9, 0] = -5.0
    errors = error_map(wrong, truth, truth, BAR, (1, 9, 0))
    assert errors is not None
    assert errors.corner == (10 - WINDOW[0], 0)
    assert np.shape(errors.reference_values) == np.shape(errors.candidate_values) == WINDOW
    assert errors.candidate_values[-1][0] == -5.0
    assert errors.reference_values[-1][0] == truth[1, 9, 0]


def test_other_shapes() -> None:
    for shape, index in (((), ()), ((3,), (1,)), ((1, 1), (0, 0)), ((2, 1, 1, 1, 3, 2), (1, 0, 0, 0, 2, 1))):
        truth = np.zeros(shape)
        wrong = truth.copy()
        wrong[index] = 1.0
        errors = error_map(wrong, truth, truth, BAR, index)
        assert errors is not None
        assert sum(errors.counts) == truth.size
        assert all(max(max(row) for row in plane.tiles) == 1 / BAR for plane in errors.planes)
        assert 1.0 in [value for row in errors.candidate_values for value in row]


def test_nan_and_infinity_are_infinitely_wrong_unless_both_have_them() -> None:
    truth = np.array([[np.nan, np.inf, 1.0], [0.0, 0.0, 2.0]])
    wrong = np.array([[np.nan, np.inf, np.nan], [np.inf, 0.0, 2.0]])
    errors = error_map(wrong, truth, truth, BAR, (0, 2))
    assert errors is not None
    assert errors.planes[0].tiles == ((0.0, 0.0, np.inf), (np.inf, 0.0, 0.0))


def test_whole_numbers_have_no_bar() -> None:
    truth = np.array([1, 2, 3])
    errors = error_map(np.array([1, 5, 3]), truth, truth, 0.0, (1,))
    assert errors is not None
    assert errors.planes[0].tiles == ((0.0, np.inf, 0.0),)


def test_there_is_none_of_nothing_and_of_very_much() -> None:
    assert error_map(np.zeros(0), np.zeros(0), np.zeros(0), BAR, None) is None
    large = np.broadcast_to(np.float32(0), (MAX_ELEMENTS + 1,))
    assert error_map(large, large, large, BAR, (0,)) is None


@given(st.integers(1, 100), st.integers(1, 100), st.data())
def test_every_element_is_in_the_tile_that_the_page_says(height: int, width: int, data: st.DataObject) -> None:
    y, x = data.draw(st.integers(0, height - 1)), data.draw(st.integers(0, width - 1))
    truth = np.zeros((height, width))
    wrong = truth.copy()
    wrong[y, x] = 1.0
    errors = error_map(wrong, truth, truth, BAR, (y, x))
    assert errors is not None
    (plane,) = errors.planes
    ((row, column),) = np.argwhere(np.asarray(plane.tiles) > 1)
    for tile, tiles, size, index in ((row, TILES[0], height, y), (column, TILES[1], width, x)):
        count = min(tiles, size)
        assert tile * size // count <= index < (tile + 1) * size // count
