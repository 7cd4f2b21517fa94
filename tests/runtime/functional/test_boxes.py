"""Boxes, sequences, blocks of images, status and counts: by definition, by their inverses, by plain loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import cellbridge.runtime as ms
from cellbridge.runtime import Tensor, ops
from tests.runtime.functional.judging import require_agreement

SEEDS = st.integers(0, 999)


def drawn_boxes(rng: np.random.Generator, count: int) -> np.ndarray[Any, Any]:
    """Boxes x1, y1, x2, y2 within 20 pixels."""
    corners = np.sort(rng.uniform(0, 20, (count, 2, 2)), axis=1)
    return corners.reshape(count, 4)


@settings(deadline=None, max_examples=25)
@given(SEEDS)
def test_overlaps_are_counts_of_pixels(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = np.floor(drawn_boxes(rng, 3)), np.floor(drawn_boxes(rng, 2))

    def pixels(box: np.ndarray[Any, Any]) -> set[tuple[int, int]]:
        x1, y1, x2, y2 = box.astype(int)
        return {(x, y) for x in range(x1, x2 + 1) for y in range(y1, y2 + 1)}

    for mode in ("iou", "iof"):
        overlaps = ops.iou(Tensor(a), Tensor(b), mode).asnumpy()
        for i, j in np.ndindex(2, 3):
            shared, covered = pixels(b[i]) & pixels(a[j]), pixels(b[i]) | pixels(a[j])
            assert overlaps[i, j] == pytest.approx(len(shared) / len(covered if mode == "iou" else pixels(b[i])))


@settings(deadline=None, max_examples=25)
@given(SEEDS)
def test_decoding_undoes_encoding(seed: int) -> None:
    rng = np.random.default_rng(seed)
    anchors, truth = Tensor(drawn_boxes(rng, 4)), Tensor(drawn_boxes(rng, 4))
    means, stds = (0.1, 0.2, 0.3, 0.4), (0.5, 0.6, 0.7, 0.8)
    deltas = ops.bounding_box_encode(anchors, truth, means, stds)
    decoded = ops.bounding_box_decode(anchors, deltas, (100, 100), means, stds)
    np.testing.assert_allclose(decoded.asnumpy(), truth.asnumpy(), atol=1e-9)
    cut = ops.bounding_box_decode(anchors, deltas, (5, 6), means, stds).asnumpy()
    assert (cut <= [6, 5, 6, 5]).all()
    inside = ops.check_valid(truth, Tensor([15.0, 14.0, 1.0])).tolist()
    assert inside == [bool(x2 <= 13 and y2 <= 14) for _, _, x2, y2 in truth.tolist()]


@settings(deadline=None, max_examples=25)
@given(st.floats(0, 1), SEEDS)
def test_suppression_leaves_no_overlap(threshold: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    boxes = np.concatenate([drawn_boxes(rng, 6), rng.permutation(6)[:, None]], 1)
    ordered, numbers, stays = (t.asnumpy() for t in ops.NMSWithMask(threshold)(Tensor(boxes)))
    assert ordered[:, 4].tolist() == [5, 4, 3, 2, 1, 0]
    assert numbers.tolist() == list(range(6))
    for i in range(6):
        better = [j for j in range(i) if stays[j] and _overlap(ordered[i], ordered[j]) > threshold]
        assert bool(stays[i]) == (not better)


def _overlap(a: Any, b: Any) -> float:
    wide = max(min(a[2], b[2]) - max(a[0], b[0]), 0) * max(min(a[3], b[3]) - max(a[1], b[1]), 0)
    areas = [(x[2] - x[0]) * (x[3] - x[1]) for x in (a, b)]
    return float(wide / (sum(areas) - wide))


def test_choices_by_a_mask() -> None:
    mask = np.array([[True, False, True], [False, True, False]])
    places, valid = ops.choice_with_mask(Tensor(mask), 5, seed=1)
    assert valid.tolist() == [True, True, True, False, False]
    assert {tuple(p) for p in places.tolist()[:3]} == {(0, 0), (0, 2), (1, 1)}
    assert places.dtype == ms.int32
    assert ops.RandomChoiceWithMask(2)(Tensor(mask))[1].tolist() == [True, True]


@settings(deadline=None, max_examples=25)
@given(st.sampled_from([(0, 1), (1, 0), (2, 0), (1, 2)]), SEEDS)
def test_reversal_of_sequences(axes: tuple[int, int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((3, 4, 2))
    steps, batch = axes
    lengths = rng.integers(0, x.shape[steps] + 1, x.shape[batch])

    def torch_reversal(t: torch.Tensor) -> torch.Tensor:
        rows = []
        for row, length in zip(t.unbind(batch), lengths, strict=True):
            axis = steps - (batch < steps)
            rows.append(
                torch.cat(
                    (row.narrow(axis, 0, length).flip(axis), row.narrow(axis, length, row.shape[axis] - length)), axis
                )
            )
        return torch.stack(rows, batch)

    require_agreement(lambda t: ops.reverse_sequence(t, Tensor(lengths), steps, batch), torch_reversal, x)


@settings(deadline=None, max_examples=20)
@given(st.booleans(), SEEDS)
def test_the_likeliest_labels(merge: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal((6, 2, 3))
    lengths = rng.integers(0, 7, 2)
    indices, values, shape, total = ops.ctc_greedy_decoder(Tensor(scores), Tensor(lengths), merge)
    rows = []
    for i, length in enumerate(lengths):
        path = scores[:length, i].argmax(-1).tolist()
        kept = [c for t, c in enumerate(path) if not (merge and t and path[t - 1] == c)]
        rows.append([c for c in kept if c != 2])
        assert total.asnumpy()[i, 0] == pytest.approx(-scores[:length, i].max(-1).sum())
    assert values.tolist() == [c for row in rows for c in row]
    assert indices.tolist() == [[i, j] for i, row in enumerate(rows) for j in range(len(row))]
    assert shape.tolist() == [2, max(map(len, rows))]


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 3), st.integers(1, 2), SEEDS)
def test_blocks_of_images(block: int, channels: int, seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal((2, channels, 2 * block, 3 * block))
    deep = ops.SpaceToDepth(block)(Tensor(x))
    assert deep.shape == (2, channels * block * block, 2, 3)
    np.testing.assert_array_equal(deep.asnumpy()[:, :channels], x[:, :, ::block, ::block])
    np.testing.assert_array_equal(ops.DepthToSpace(block)(deep).asnumpy(), x)
    pads = [[block, 0], [0, 2 * block]]
    batches = ops.space_to_batch_nd(Tensor(x), [block, block], pads)
    np.testing.assert_array_equal(ops.batch_to_space_nd(batches, [block, block], pads).asnumpy(), x)
    direction = np.random.default_rng(seed + 1).standard_normal(batches.shape)
    gradient = ops.grad(lambda t: (ops.SpaceToBatchND([block] * 2, pads)(t) * Tensor(direction)).sum())(Tensor(x))
    np.testing.assert_array_equal(
        gradient.asnumpy(), ops.BatchToSpaceND([block] * 2, pads)(Tensor(direction)).asnumpy()
    )


def test_whether_numbers_are_finite() -> None:
    good, bad = Tensor([1.0, 2.0]), Tensor([1.0, float("nan"), float("inf")])
    assert ops.CheckNumerics()(good) is good
    with pytest.raises(RuntimeError, match="NaN and infinity"):
        ops.CheckNumerics()(bad)
    assert [ops.FloatStatus()(x).tolist() for x in (good, bad)] == [[0], [1]]


def test_elements_that_are_there() -> None:
    x = Tensor([[1.0, 2.0]])
    assert 2.0 in x
    assert 3 not in x
    assert not x.has_init
    assert ops.numel(x) == 2
    assert ops.is_nonzero(Tensor([[3]]))


def test_assertions(capsys: pytest.CaptureFixture[str]) -> None:
    ops.Assert()(Tensor(True), [])
    with pytest.raises(RuntimeError, match="false"):
        ops.Assert(2)(False, [Tensor([1, 2, 3])])
    assert capsys.readouterr().out == "input data: [1 2]\n"


@settings(deadline=None, max_examples=20)
@given(SEEDS)
def test_counts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    (labels, predictions), weights = rng.integers(0, 3, (2, 9)).tolist(), rng.standard_normal(9)
    matrix = np.zeros((3, 3))
    np.add.at(matrix, (labels, predictions), weights)
    result = ops.ConfusionMatrix(3, "float64")(Tensor(labels), Tensor(predictions), Tensor(weights))
    np.testing.assert_allclose(result.asnumpy(), matrix)
    x = rng.uniform(-2, 3, 20)
    histogram = ops.HistogramFixedWidth(4)(Tensor(x), Tensor([0.0, 1.0])).tolist()
    assert histogram == np.histogram(np.clip(x, 0, 1), 4, (0, 1))[0].tolist()
    assert ops.gcd(Tensor(labels), 6).tolist() == np.gcd(labels, 6).tolist()
    assert ops.lcm(Tensor(labels), 6).tolist() == np.lcm(labels, 6).tolist()


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: ops.iou(x, x), ValueError),
        (lambda x: ops.iou(x, x, "iog"), ValueError),
        (lambda x: ops.NMSWithMask()(x), ValueError),
        (lambda x: ops.choice_with_mask(x), TypeError),
        (lambda x: ops.reverse_sequence(x, Tensor([1]), 0, 0), ValueError),
        (lambda x: ops.reverse_sequence(x, Tensor([1, 1, 1]), 1, 0), ValueError),
        (lambda x: ops.reverse_sequence(x, Tensor([1, 9]), 1, 0), RuntimeError),
        (lambda x: ops.ctc_greedy_decoder(x, Tensor([1])), ValueError),
        (lambda x: ops.DepthToSpace(2)(x[None]), ValueError),
        (lambda x: ops.space_to_batch_nd(x, 2, [[0, 1]]), ValueError),
        (lambda x: ops.ConfusionMatrix(2)(Tensor([2]), Tensor([0])), ValueError),
        (lambda x: ops.gcd(x, 2), TypeError),
        (lambda x: ops.EqualCount()(x, x[0]), ValueError),
        (lambda x: ops.is_nonzero(x), ValueError),
        (lambda x: ops.fill_diagonal(x[0], 1.0), ValueError),
    ],
)
def test_errors(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="For '"):
        call(Tensor([[1.0, 2.0], [3.0, 4.0]]))
