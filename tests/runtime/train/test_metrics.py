"""Metrics: against counting one by one, over several batches, chosen inputs, by name, errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from cellbridge.runtime import Tensor, nn
from cellbridge.runtime.train.metrics import get_metrics

RNG = np.random.default_rng(0)
SCORES = [RNG.random((6, 4)) for _ in range(3)]
CLASSES = [RNG.integers(0, 4, 6) for _ in range(3)]
BATCHES = list(zip(SCORES, CLASSES, strict=True))
BEST = np.concatenate(SCORES).argmax(1).tolist()
TRUE = np.concatenate(CLASSES).tolist()
LABELS = [(RNG.integers(0, 2, (5, 3)), RNG.integers(0, 2, (5, 3))) for _ in range(2)]


def measured(metric: nn.Metric, batches: Any, **options: Any) -> Any:
    for batch in batches:
        metric.update(*map(Tensor, batch))
    return metric.eval(**options)


def one_hot(batches: Any) -> Any:
    return [(scores, np.eye(4)[classes]) for scores, classes in batches]


def counted(c: int) -> tuple[int, int, int]:
    """How often class `c` is right, predicted, and true."""
    return sum(b == t == c for b, t in zip(BEST, TRUE, strict=True)), BEST.count(c), TRUE.count(c)


@pytest.mark.parametrize("batches", [BATCHES, one_hot(BATCHES)], ids=["classes", "one-hot"])
def test_metrics_of_classes(batches: Any) -> None:
    right = sum(b == t for b, t in zip(BEST, TRUE, strict=True))
    assert measured(nn.Accuracy(), batches) == pytest.approx(right / 18)
    assert measured(nn.Top1CategoricalAccuracy(), batches) == pytest.approx(right / 18)
    assert measured(nn.Top5CategoricalAccuracy(), batches) == 1.0
    second = sum(t in np.argsort(s)[-2:] for s, t in zip(np.concatenate(SCORES), TRUE, strict=True))
    assert measured(nn.TopKCategoricalAccuracy(2), batches) == pytest.approx(second / 18)
    counts = [counted(c) for c in range(4)]
    expected: dict[Any, list[float]] = {
        nn.Precision: [both / predicted for both, predicted, _ in counts],
        nn.Recall: [both / actual for both, _, actual in counts],
        nn.F1: [2 * both / (predicted + actual) for both, predicted, actual in counts],
    }
    for metric, values in expected.items():
        np.testing.assert_allclose(measured(metric(), batches), values)
        assert measured(metric(), batches, average=True) == pytest.approx(np.mean(values))
    f2 = [5 * both / (4 * actual + predicted) for both, predicted, actual in counts]
    np.testing.assert_allclose(measured(nn.Fbeta(2), batches), f2)


def test_metrics_of_several_labels() -> None:
    predicted, true = (np.concatenate(side) for side in zip(*LABELS, strict=True))
    assert measured(nn.Accuracy("multilabel"), LABELS) == pytest.approx((predicted == true).all(1).mean())
    both = (predicted & true).sum(1)
    for metric, divisor in ((nn.Precision, predicted.sum(1)), (nn.Recall, true.sum(1))):
        expected = np.where(divisor == 0, 0, both / np.maximum(divisor, 1))
        np.testing.assert_allclose(measured(metric("multilabel"), LABELS), expected)
        assert measured(metric("multilabel"), LABELS, average=True) == pytest.approx(expected.mean())


def test_pixels_count_one_by_one() -> None:
    images, classes = RNG.random((2, 4, 3, 3)), RNG.integers(0, 4, (2, 3, 3))
    flat = [(np.moveaxis(images, 1, -1).reshape(-1, 4), classes.reshape(-1))]
    for metric in (nn.Accuracy, nn.Precision, nn.Recall, nn.F1):
        np.testing.assert_allclose(measured(metric(), [(images, classes)]), measured(metric(), flat))


def test_errors_losses_and_perplexity() -> None:
    pairs = [(RNG.random((2, 3)), RNG.random((2, 3))) for _ in range(2)]
    p, t = (np.concatenate(side) for side in zip(*pairs, strict=True))
    assert measured(nn.MAE(), pairs) == pytest.approx(np.abs(p - t).sum() / 4)
    assert measured(nn.MSE(), pairs) == pytest.approx(((p - t) ** 2).sum() / 4)
    assert measured(nn.Loss(), [(np.array(0.5),), (np.array([1.0, 2.0]),)]) == pytest.approx(1.0)
    logits, classes = torch.randn(8, 4), torch.randint(0, 4, (8,))
    probabilities = logits.softmax(1).numpy()
    for ignored in (None, int(classes[0])):
        options = {} if ignored is None else {"ignore_index": ignored}
        expected = math.exp(torch.nn.functional.cross_entropy(logits, classes, **options))  # type: ignore[arg-type]
        assert measured(nn.Perplexity(ignored), [(probabilities, classes.numpy())]) == pytest.approx(expected, 1e-5)


def test_a_matrix_tells_which_is_taken_for_which() -> None:
    counts = np.zeros((4, 4))
    for t, b in zip(TRUE, BEST, strict=True):
        counts[t, b] += 1
    np.testing.assert_array_equal(measured(nn.ConfusionMatrix(4), BATCHES), counts)
    np.testing.assert_allclose(measured(nn.ConfusionMatrix(4, "all"), BATCHES), counts / 18)
    np.testing.assert_allclose(measured(nn.ConfusionMatrix(4, "target"), BATCHES), counts / counts.sum(1)[:, None])
    np.testing.assert_allclose(measured(nn.ConfusionMatrix(4, "prediction"), BATCHES), counts / counts.sum(0))
    certain = measured(nn.ConfusionMatrix(2, threshold=0.4), [(np.array([0.3, 0.4, 0.9]), np.array([1, 1, 0]))])
    np.testing.assert_array_equal(certain, [[0, 1], [1, 1]])
    once = measured(nn.ConfusionMatrix(3, "target"), [(np.array([0, 0]), np.array([1, 1]))])
    np.testing.assert_array_equal(once, [[0, 0, 0], [1, 0, 0], [0, 0, 0]])


def test_clearing_calling_and_choosing_inputs() -> None:
    metric = nn.Accuracy().set_indexes([2, 0])
    assert metric.indexes == [2, 0]
    metric.update(CLASSES[0], "ignored", SCORES[0])
    first = metric.eval()
    metric.clear()
    metric.update(CLASSES[1], "ignored", SCORES[1])
    assert metric.eval() == measured(nn.Accuracy(), BATCHES[1:2])
    assert metric(CLASSES[0], None, SCORES[0]) == first
    with pytest.raises(ValueError, match="'indexes' must be a list of ints"):
        metric.set_indexes((0, 1))  # type: ignore[arg-type]


def test_one_s_own_metric() -> None:
    class Largest(nn.Metric):
        def clear(self) -> None:
            self.largest = 0.0

        @nn.rearrange_inputs
        def update(self, *inputs: Any) -> None:
            self.largest = max(self.largest, float(self._convert_data(inputs[0]).max()))

        def eval(self) -> float:
            return self.largest

    assert Largest().set_indexes([1])(Tensor([9.0]), Tensor([1.0, 3.0])) == 3.0
    with pytest.raises(TypeError, match="abstract"):
        nn.Metric()  # type: ignore[abstract]


def test_metrics_by_name() -> None:
    assert isinstance(nn.get_metric_fn("precision", "multilabel"), nn.Precision)
    assert "accuracy" in nn.names()
    for name in nn.names():
        arguments = {"topk": (2,), "confusion_matrix": (3,)}.get(name, ())
        assert isinstance(nn.get_metric_fn(name, *arguments), nn.Metric)
    metrics = get_metrics({"loss", "acc"})
    assert metrics is not None
    assert sorted(metrics) == ["acc", "loss"]
    assert get_metrics(None) is None
    given = {"mine": nn.MAE()}
    assert get_metrics(given) is given


S, C = SCORES[0], CLASSES[0]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: nn.Accuracy("no"), TypeError, ["'eval_type'", "multilabel", "'no'"]),
        (lambda: nn.Accuracy().eval(), RuntimeError, ["'Accuracy'", "update"]),
        (lambda: nn.Precision().eval(), RuntimeError, ["'Precision'", "update"]),
        (lambda: nn.Loss().eval(), RuntimeError, ["'Loss'", "update"]),
        (lambda: nn.Accuracy().update(S), ValueError, ["2 inputs", "got 1"]),
        (lambda: nn.Accuracy().update(S, 3), TypeError, ["Tensor", "int"]),
        (lambda: nn.Accuracy()(S, C[:3]), ValueError, ["(N, C, ...)", "(6, 4)", "(3,)"]),
        (lambda: nn.Accuracy()(S, C + 4), ValueError, ["[0, 4)"]),
        (lambda: nn.Accuracy("multilabel")(S, C), ValueError, ["one shape", "(6, 4)", "(6,)"]),
        (lambda: nn.Accuracy("multilabel")(S, S), ValueError, ["0 or 1"]),
        (lambda: measured(nn.Recall(), [(S, C), (S[:, :3], C % 3)]), ValueError, ["4 classes before", "now 3"]),
        (lambda: measured(nn.F1(), [(S, C)], average=1), TypeError, ["'average'", "bool"]),
        (lambda: nn.Fbeta(0), ValueError, ["'beta'", "> 0"]),
        (lambda: nn.TopKCategoricalAccuracy(0), ValueError, ["'k'", "at least 1"]),
        (lambda: nn.TopKCategoricalAccuracy("1"), TypeError, ["'k'", "int"]),
        (lambda: nn.MAE()(S, C), ValueError, ["as many", "(6, 4)"]),
        (lambda: nn.Loss()(S), ValueError, ["vector", "(6, 4)"]),
        (lambda: nn.Perplexity()(S, C[:3]), RuntimeError, ["(..., C)", "(3,)"]),
        (lambda: nn.Perplexity("0"), TypeError, ["'ignore_label'", "int"]),
        (lambda: nn.ConfusionMatrix(4, "row"), ValueError, ["'normalize'", "target", "'row'"]),
        (lambda: nn.ConfusionMatrix(3)(S, C), ValueError, ["[0, 3)"]),
        (lambda: nn.ConfusionMatrix(4)(S, C[:3]), ValueError, ["(N, C, ...)", "(3,)"]),
        (lambda: nn.get_metric_fn("no"), KeyError, ["accuracy", "'no'"]),
        (lambda: get_metrics(["acc"]), TypeError, ["dict or a set", "list"]),
        (lambda: get_metrics({"a": 3}), TypeError, ["Metrics", "'a': 3"]),
    ],
)
def test_what_is_wrong_is_named(call: Callable[[], Any], error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as raised:
        call()
    assert [word for word in words if word not in str(raised.value)] == []
