"""The recipes of `fixtures/recipes`."""

from __future__ import annotations

from typing import Any

from cellbridge.runtime import grad, ops
from fixtures.recipes.contrastive import PairLoss
from fixtures.recipes.dynamic_shapes import (
    HardestPositives,
    MaskedMean,
    bucket_length,
    chosen_boxes,
    large_values,
    padded,
)
from fixtures.recipes.positional_encoding import PositionalEncoding
from tests.runtime.golden.cases import Inputs, Params, runner
from tests.runtime.golden.networks import dense


@runner("positional_encoding")
def positional_encoding(params: Params, inputs: Inputs) -> dict[str, Any]:
    cell = PositionalEncoding(params["dim"], params["max_len"])
    return {"table": cell.table, "out": cell(inputs["x"])}


@runner("contrastive")
def contrastive(params: Params, inputs: Inputs) -> dict[str, Any]:
    loss = PairLoss()
    return {"out": loss(inputs["e"]), "de": grad(loss)(inputs["e"])}


@runner("box_select")
def box_select(params: Params, inputs: Inputs) -> dict[str, Any]:
    boxes, overlaps, threshold = inputs["box"], inputs["iou"], params["thr"]
    masked, mask = chosen_boxes(boxes, overlaps, threshold)
    return {
        "selected": ops.masked_select(boxes, mask),
        "masked": masked,
        "mask": mask,
        "d_masked": grad(lambda box: ops.square(chosen_boxes(box, overlaps, threshold)[0]).sum())(boxes),
    }


@runner("class_loss")
def class_loss(params: Params, inputs: Inputs) -> dict[str, Any]:
    loss = HardestPositives()
    logits, label = inputs["pred"], inputs["label"]
    return {"loss": loss(logits, label), "dpred": grad(loss)(logits, label)}


@runner("cond_mask")
def cond_mask(params: Params, inputs: Inputs) -> dict[str, Any]:
    x, threshold = inputs["x"], params["thr"]
    is_any_above = bool((x > threshold).any())
    return {
        "cond": is_any_above,
        "dynamic": ops.masked_select(x, x > threshold) if is_any_above else ops.zeros_like(x),
        "static": large_values(x, threshold),
    }


@runner("pad_bucket")
def pad_bucket(params: Params, inputs: Inputs) -> dict[str, Any]:
    layer = dense(inputs["w"], inputs["b"])
    mean = MaskedMean(layer)
    rows, batches = [], []
    for row in inputs["rows"]:
        length = bucket_length(row.shape[0], params["buckets"])
        steps, mask = padded(row.asnumpy(), length)
        batches.append((steps, mask))
        plain = layer(steps).mean(0)
        rows.append({"length": length, "mask": mask, "masked_mean": mean(steps, mask), "plain_mean": plain})
    total = grad(lambda: sum(mean(steps, mask).sum() for steps, mask in batches), None, layer.weight)
    return {"rows": rows, "dw": total()}
