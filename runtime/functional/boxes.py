"""Bounding boxes x1, y1, x2, y2 in images: overlap, offsets, and selection."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import checks
from ..common.dtype import bool_, int32
from ..common.tensor import from_array
from ..ops import comparison, elementwise, indexing, shaping
from ..ops.random import use_seed
from .arguments import known_elements
from .joining import stack, unstack
from .operands import as_floating, as_tensor, require_floating
from .public_op import Primitive, public_op
from .random import randperm


@public_op(primitive=Primitive("IOU", init_args=("mode",)))
def iou(anchor_boxes: Any, gt_boxes: Any, mode: str = "iou") -> Any:
    """Intersection over union (IoU) of each pair of boxes; a box from x1 to x1 is one pixel wide.

    Args:
        anchor_boxes: (n, 4), floating-point.
        gt_boxes: (m, 4).
        mode: "iou", or "iof": intersection over the area of the box of `gt_boxes`.

    Returns:
        (m, n).

    Raises:
        ValueError: `mode` is unknown, or a shape doesn't fit.
    """
    checks.one_of(mode, "mode", ("iou", "iof"), of="iou")
    a, b = (_columns(x, name, of="iou") for x, name in ((anchor_boxes, "anchor_boxes"), (gt_boxes, "gt_boxes")))
    upright = [shaping.reshape(column, shape=(*column.shape, 1)) for column in b]
    width = elementwise.minimum(a[2], upright[2]) - elementwise.maximum(a[0], upright[0]) + 1.0
    height = elementwise.minimum(a[3], upright[3]) - elementwise.maximum(a[1], upright[1]) + 1.0
    shared = elementwise.clamp(width, minimum=0) * elementwise.clamp(height, minimum=0)
    area_a, area_b = ((x[2] - x[0] + 1.0) * (x[3] - x[1] + 1.0) for x in (a, upright))
    covered = area_a + area_b - shared if mode == "iou" else area_b
    return shared / covered


@public_op(primitive=Primitive("BoundingBoxEncode", init_args=("means", "stds")))
def bounding_box_encode(
    anchor_box: Any, groundtruth_box: Any, means: Any = (0.0, 0.0, 0.0, 0.0), stds: Any = (1.0, 1.0, 1.0, 1.0)
) -> Any:
    """Encode boxes as offsets from their anchors (Girshick et al., "R-CNN", 2014).

    The offsets are the differences of the centres divided by the sizes of the anchors, and the logarithms of the ratios
    of the sizes. `means` are subtracted from them, and the results are divided by `stds`. Boxes, anchors and offsets
    are (n, 4).
    """
    a = _columns(anchor_box, "anchor_box", of="bounding_box_encode")
    b = _columns(groundtruth_box, "groundtruth_box", of="bounding_box_encode")
    (ax, ay, aw, ah), (bx, by, bw, bh) = _center_and_size(*a), _center_and_size(*b)
    offsets = ((bx - ax) / aw, (by - ay) / ah, elementwise.log(bw / aw), elementwise.log(bh / ah))
    return stack([(d - m) / s for d, m, s in zip(offsets, means, stds, strict=True)], -1)


@public_op(primitive=Primitive("BoundingBoxDecode", init_args=("max_shape", "means", "stds", "wh_ratio_clip")))
def bounding_box_decode(
    anchor_box: Any, deltas: Any, max_shape: Any, means: Any = (0.0, 0.0, 0.0, 0.0), stds: Any = (1.0, 1.0, 1.0, 1.0),
    wh_ratio_clip: float = 0.016,
) -> Any:  # fmt: skip
    """Decode boxes from their offsets from anchors: the inverse of `bounding_box_encode`.

    Args:
        anchor_box: (n, 4).
        deltas: (n, 4).
        max_shape: (height, width) of the image; boxes are clipped to it.
        means: the means of the offsets.
        stds: the standard deviations of the offsets.
        wh_ratio_clip: limits the ratio of the size of a box to that of its anchor, to between this and its inverse.
    """
    a = _columns(anchor_box, "anchor_box", of="bounding_box_decode")
    d = _columns(deltas, "deltas", of="bounding_box_decode")
    ax, ay, aw, ah = _center_and_size(*a)
    dx, dy, dw, dh = (x * s + m for x, m, s in zip(d, means, stds, strict=True))
    limit = abs(math.log(wh_ratio_clip))
    width, height = (
        elementwise.exp(elementwise.clamp(log, minimum=-limit, maximum=limit)) * size
        for log, size in ((dw, aw), (dh, ah))
    )
    x, y = ax + dx * aw, ay + dy * ah
    bottom, right = float(max_shape[0]), float(max_shape[1])
    sides = (
        (x - width * 0.5 + 0.5, right), (y - height * 0.5 + 0.5, bottom),
        (x + width * 0.5 - 0.5, right), (y + height * 0.5 - 0.5, bottom),
    )  # fmt: skip
    return stack([elementwise.clamp(side, minimum=0, maximum=most) for side, most in sides], -1)


@public_op(primitive="CheckValid")
def check_valid(bboxes: Any, img_metas: Any) -> Any:
    """Whether each box (n, 4) lies within the image; `img_metas` are its height, its width and a factor for both."""
    x1, y1, x2, y2 = _columns(bboxes, "bboxes", of="check_valid")
    height, width, ratio = unstack(
        elementwise.cast(as_tensor(img_metas, "img_metas", of="check_valid"), dtype=x1.dtype)
    )
    zero = np.zeros((), x1.dtype)
    within = [comparison.greater_equal(x1, zero), comparison.greater_equal(y1, zero)]
    within += [comparison.less_equal(x2, width * ratio - 1.0), comparison.less_equal(y2, height * ratio - 1.0)]
    first, *rest = within
    for condition in rest:
        first = comparison.logical_and(first, condition)
    return first


@public_op(primitive=Primitive("NMSWithMask", init_args=("iou_threshold",)))
def _nms_with_mask(bboxes: Any, iou_threshold: float = 0.5) -> tuple[Any, Any, Any]:
    """Non-maximum suppression: sort boxes by score, and suppress those that overlap a box with a higher score.

    Args:
        bboxes: (n, 5): x1, y1, x2, y2 and the score.
        iou_threshold: the intersection over union above which a box is suppressed.

    Returns:
        The boxes in descending order of score (n, 5), their indices in this order (int32), and whether each is kept
        (bool).
    """
    x = require_floating(bboxes, "bboxes", of="NMSWithMask")
    if x.ndim != 2 or x.shape[1] != 5:
        raise ValueError(f"For 'NMSWithMask', 'bboxes' must have shape (n, 5), but got {tuple(x.shape)}")
    values = known_elements(x, "the boxes").astype(np.float64)
    order = np.argsort(-values[:, 4], kind="stable")
    x1, y1, x2, y2 = values[order, :4].T
    sides = (
        np.maximum(np.minimum(x2[:, None], x2) - np.maximum(x1[:, None], x1), 0),
        np.maximum(np.minimum(y2[:, None], y2) - np.maximum(y1[:, None], y1), 0),
    )
    shared = sides[0] * sides[1]
    areas = (x2 - x1) * (y2 - y1)
    overlap = shared / np.maximum(areas[:, None] + areas - shared, 1e-12)
    is_kept = np.ones(len(order), bool)
    for i in range(len(order)):
        if is_kept[i]:
            is_kept[i + 1 :] &= overlap[i, i + 1 :] <= iou_threshold
    return (
        indexing.take(x, from_array(order), axis=0),
        from_array(np.arange(len(order), dtype=int32)),
        from_array(is_kept),
    )


@public_op(primitive=Primitive("RandomChoiceWithMask", init_args=("count",), ignored_args={"seed": 0, "seed2": 0}))
def choice_with_mask(input_x: Any, count: int = 256, seed: int | None = None) -> tuple[Any, Any]:
    """Coordinates of a random selection of the true elements.

    Args:
        input_x: bools, any shape.
        count: the number of coordinates.
        seed: makes the result reproducible.

    Returns:
        Coordinates (count, axes), int32, and whether each is valid (count). If there are fewer than `count` true
        elements, the other coordinates are zeros.

    Raises:
        TypeError: `input_x` isn't a tensor of bools.
    """
    x = as_tensor(input_x, "input_x", of="choice_with_mask")
    if x.dtype != bool_:
        raise TypeError(f"For 'choice_with_mask', 'input_x' must hold bools, but got {x.dtype}")
    candidates = np.argwhere(known_elements(x, "the mask of choice_with_mask")).astype(int32)
    with use_seed(seed):
        order = np.asarray(randperm(len(candidates)))[: checks.positive_int(count, "count", of="choice_with_mask")]
    choices = np.zeros((count, x.ndim), int32)
    choices[: len(order)] = candidates[order]
    return from_array(choices), from_array(np.arange(count) < len(order))


def _columns(boxes: Any, name: str, *, of: str) -> tuple[Any, ...]:
    x = as_floating(boxes, name, of=of)
    if x.ndim != 2 or x.shape[1] != 4:
        raise ValueError(f"For '{of}', '{name}' must have shape (n, 4), but got {tuple(x.shape)}")
    columns: tuple[Any, ...] = unstack(x, 1)
    return columns


def _center_and_size(x1: Any, y1: Any, x2: Any, y2: Any) -> tuple[Any, Any, Any, Any]:
    """Return the centre and the size of boxes that include their last pixels."""
    return (x1 + x2) * 0.5, (y1 + y2) * 0.5, x2 - x1 + 1.0, y2 - y1 + 1.0
