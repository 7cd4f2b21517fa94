"""Names of inputs, outputs and dynamic axes in exported models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from cellbridge.converter import from_torch, to_onnx
from cellbridge.runtime import UsageError
from cellbridge.runtime.compiled.session import run_model
from tests.converter.programs import checked, floats, names


class Twice(nn.Module):
    """Two sequences along one axis, each also twice."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        joined = torch.cat([x, x, y], 1)
        return {"joined": joined, "flat": joined.reshape(-1, 3), "shifted": torch.nn.functional.pad(x, (0, 0, 0, 1))}


def twice() -> Any:
    batch, n, m = (torch.export.Dim(name) for name in ("b", "n", "m"))
    shapes = {"x": {0: batch, 1: n}, "y": {0: batch, 1: m}}
    return from_torch(Twice(), (torch.randn(2, 4, 3), torch.randn(2, 5, 3)), dynamic_shapes=shapes)


def dims(values: Any) -> dict[str, list[Any]]:
    return {v.name: [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim] for v in values}


def test_symbols_are_written_with_sums_and_products() -> None:
    model = checked(to_onnx(twice()))
    assert dims(model.graph.input) == {"x": ["b", "n", 3], "y": ["b", "m", 3]}
    written = dims(model.graph.output)
    assert written["joined"] == ["b", "m + 2*n", 3]
    assert written["shifted"] == ["b", "n + 1", 3]
    assert sorted(written["flat"][0].replace("2*", "").split(" + ")) == ["b*m", "b*n"]
    for sizes in ((1, 1, 1), (3, 7, 2)):
        x, y = floats(sizes[0], sizes[1], 3), floats(sizes[0], sizes[2], 3)
        results = run_model(model, {"x": x, "y": y})
        joined = np.concatenate([x, x, y], 1)
        np.testing.assert_array_equal(results["joined"], joined)
        np.testing.assert_array_equal(results["flat"], joined.reshape(-1, 3))


def test_dynamic_axes_name_symbols_everywhere() -> None:
    axes = {"x": {0: "batch", -2: "length"}, "y": [0, 1], "joined": {1: "total"}}
    model = checked(to_onnx(twice(), dynamic_axes=axes))
    assert dims(model.graph.input) == {"x": ["batch", "length", 3], "y": ["batch", "m", 3]}
    written = dims(model.graph.output)
    assert written["joined"] == ["batch", "total", 3]
    assert written["shifted"] == ["batch", "length + 1", 3]


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"z": {0: "batch"}}, "dynamic_axes names 'z'; inputs and outputs are x, y, joined, flat, shifted"),
        ({"x": {3: "k"}}, "names axis 3 of 'x', which has 3 dimensions"),
        ({"x": {2: "k"}}, "axis 2 of 'x', which was captured as 3 .* dynamic_shapes={'x': {2: 'k'}}"),
        ({"x": [2]}, "axis 2 of 'x', which was captured as 3"),
        ({"x": {0: "batch"}, "y": {0: "other"}}, "calls axis 0 of 'y' 'other', .* the same size 'batch'"),
    ],
)
@pytest.mark.every(2)
def test_dynamic_axes_that_do_not_fit_are_errors(axes: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        to_onnx(twice(), dynamic_axes=axes)


class Nested(nn.Module):
    """Every kind of argument and result that a signature may hold."""

    def forward(self, x: Any, pair: Any, *rest: Any, state: Any, scale: float = 2.0) -> Any:
        total = x + pair[0] + pair[1]["inner"] + rest[0] + state["h"] * scale
        return [total, (total * 2, {"last": total * 3})], {"a": {"b": total * 4}}


def test_names_of_nested_arguments_and_results() -> None:
    x = torch.ones(2)
    program = from_torch(Nested(), (x, (x, {"inner": x}), x), {"state": {"h": x}, "scale": 3.0})
    model = checked(to_onnx(program))
    given = names(model.graph.input)
    assert given[0] == "x"
    assert given[-1] == "state.h"
    assert len(set(given)) == 5
    assert names(model.graph.output) == ["output_0.0", "output_0.1.0", "output_0.1.1.last", "output_1.a.b"]


def test_names_of_a_model_output() -> None:
    transformers = pytest.importorskip("transformers")

    class Head(nn.Module):
        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> Any:
            hidden = input_ids * attention_mask.float()
            return transformers.modeling_outputs.BaseModelOutput(last_hidden_state=hidden, hidden_states=(hidden + 1,))

    ids = torch.ones(1, 3, dtype=torch.int64)
    Head()(ids, ids)  # transformers tells torch of the class when the first object is made
    model = checked(to_onnx(from_torch(Head(), (), {"input_ids": ids, "attention_mask": ids})))
    assert names(model.graph.input) == ["input_ids", "attention_mask"]
    assert names(model.graph.output) == ["last_hidden_state", "hidden_states.0"]
