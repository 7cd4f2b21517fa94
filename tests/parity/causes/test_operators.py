"""Operators with other settings, which are many nodes of a program, are one cause in the words of the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn
from torch.nn import functional

from cellbridge import parity
from cellbridge.parity.causes.catalogue.resizing import Setting, matrix
from cellbridge.parity.checking.onnx_files.compare import compare_onnx
from cellbridge.parity.results.cause import Cause

IMAGE = torch.randn(1, 2, 6, 6, generator=torch.Generator().manual_seed(0))
SEQUENCES = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0))


def the_cause(reference: nn.Module, candidate: nn.Module, x: Tensor) -> Cause:
    candidate.load_state_dict(reference.state_dict())
    report = parity.compare(reference, candidate, (x,), probe=False)
    (path,) = report.failing
    (cause,) = report.cells[path].causes
    assert cause.error < 1e-11
    return cause


class Resized(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self._options = options

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(functional.interpolate(x, **self._options))


RESIZES = {
    "corners": ({"mode": "bilinear"}, {"mode": "bilinear", "align_corners": True}, "align_corners", False, True),
    "antialias": ({"mode": "bilinear"}, {"mode": "bilinear", "antialias": True}, "antialias", False, True),
    "no antialias": ({"mode": "bicubic", "antialias": True}, {"mode": "bicubic"}, "antialias", True, False),
    "mode": ({"mode": "bilinear", "antialias": True}, {"mode": "bicubic", "antialias": True}, "mode", "bilinear",
             "bicubic"),
    "nearest": ({"mode": "nearest"}, {"mode": "nearest-exact"}, "mode", "nearest", "nearest-exact"),
    "area": ({"mode": "area"}, {"mode": "bilinear"}, "mode", "area", "bilinear"),
}  # fmt: skip


def is_named(cause: Cause, name: str, reference_value: object, candidate_value: object) -> None:
    assert (cause.kind, cause.attribute, cause.reference_value, cause.candidate_value) == (
        "attribute", name, reference_value, candidate_value,
    )  # fmt: skip
    assert (
        f"in interpolate, {name} is {candidate_value!r} in the candidate, {reference_value!r} in the reference"
        in cause.summary
    )
    assert cause.fix == f"use {name}={reference_value!r}"


@pytest.mark.causes
@pytest.mark.parametrize("name", RESIZES)
@pytest.mark.every(6)
def test_settings_of_torch_are_named(name: str) -> None:
    first, second, *words = RESIZES[name]
    is_named(the_cause(Resized(size=(4, 4), **first), Resized(size=(4, 4), **second), IMAGE), *words)


@pytest.mark.causes
@pytest.mark.usefixtures("opaque_candidates")
@pytest.mark.parametrize("name", [name for name in RESIZES if name != "area"])
@pytest.mark.every(3)
def test_settings_are_named_where_the_candidate_has_no_program(name: str) -> None:
    first, second, *words = RESIZES[name]
    cause = the_cause(Resized(size=(4, 4), **first), Resized(size=(4, 4), **second), IMAGE)
    name, reference_value, candidate_value = words
    assert (cause.attribute, cause.reference_value, cause.candidate_value) == (name, reference_value, candidate_value)


@pytest.mark.causes
def test_a_fault_beside_a_resize_isnt_taken_for_one() -> None:
    class Scaled(Resized):
        def forward(self, x: Tensor) -> Tensor:
            return functional.relu(functional.interpolate(x * 1.5, **self._options))

    options = {"size": (4, 4), "mode": "bilinear", "antialias": True}
    cause = the_cause(Resized(**options), Scaled(**options), IMAGE)
    assert "interpolate" not in cause.summary
    assert "the scale 1.5 is applied in the candidate in addition" in cause.summary


@pytest.mark.parametrize(
    ("options", "setting"),
    [
        ({"mode": "linear"}, Setting("linear")),
        ({"mode": "linear", "align_corners": True}, Setting("linear", "align_corners")),
        ({"mode": "nearest"}, Setting("nearest", "asymmetric")),
        ({"mode": "nearest-exact"}, Setting("nearest", "half_pixel", "round_prefer_ceil")),
        ({"mode": "area"}, Setting("area")),
    ],
)
@pytest.mark.parametrize(("old", "new"), [(7, 4), (5, 11), (3, 1)])
def test_matrices_are_those_of_torch(options: dict[str, Any], setting: Setting, old: int, new: int) -> None:
    line = torch.eye(old, dtype=torch.float64)[None]  # each channel has one pixel
    expected = functional.interpolate(line, size=new, **options)[0]
    np.testing.assert_allclose(matrix(old, new, setting), expected, atol=1e-12)


@pytest.mark.parametrize("antialias", [False, True])
def test_cubic_matrices_are_those_of_torch(antialias: bool) -> None:
    setting = Setting("cubic", antialias=antialias, coefficient=-0.5 if antialias else -0.75)
    lines = torch.eye(9, dtype=torch.float64)[None, :, :, None].expand(1, 9, 9, 4)
    expected = functional.interpolate(lines, size=(5, 4), mode="bicubic", antialias=antialias)[0, :, :, 0]
    np.testing.assert_allclose(matrix(9, 5, setting), expected, atol=1e-12)


# ---- recurrent units ----


class After(nn.Module):
    """A GRU by hand, with the weights of torch's."""

    def __init__(self) -> None:
        super().__init__()
        for name, parameter in nn.GRU(3, 4).named_parameters():
            self.register_parameter(name, parameter)

    def inner(self, reset: Tensor, h: Tensor, product: Tensor) -> Tensor:
        return reset * product

    def forward(self, x: Tensor) -> Tensor:
        h = x.new_zeros(x.shape[0], 4)
        for t in range(x.shape[1]):
            a = functional.linear(x[:, t], self.weight_ih_l0, self.bias_ih_l0).chunk(3, 1)
            b = functional.linear(h, self.weight_hh_l0, self.bias_hh_l0).chunk(3, 1)
            reset, update = torch.sigmoid(a[0] + b[0]), torch.sigmoid(a[1] + b[1])
            h = (1 - update) * torch.tanh(a[2] + self.inner(reset, h, b[2])) + update * h
        return h


class Before(After):
    def inner(self, reset: Tensor, h: Tensor, product: Tensor) -> Tensor:
        return functional.linear(reset * h, self.weight_hh_l0[8:], self.bias_hh_l0[8:])


class Layer(nn.GRU):
    def __init__(self) -> None:
        super().__init__(3, 4, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x)[1][0]  # type: ignore[no-any-return]


@pytest.mark.causes
@pytest.mark.parametrize("is_opaque", [False, True])
@pytest.mark.parametrize(
    ("reference", "candidate", "reference_side", "candidate_side"),
    [(Layer, Before, "after", "before"), (Before, Layer, "before", "after"), (After, Before, "after", "before")],
)
@pytest.mark.every(6)
def test_the_side_of_the_reset_gate_is_named(
    reference: type[nn.Module], candidate: type[nn.Module], reference_side: str, candidate_side: str, is_opaque: bool,
    request: pytest.FixtureRequest,
) -> None:  # fmt: skip
    if is_opaque:
        request.getfixturevalue("opaque_candidates")
    cause = the_cause(reference(), candidate(), SEQUENCES)
    assert f"the reset gate of the GRU is applied {candidate_side} the product" in cause.summary
    assert f"in the candidate, {reference_side} it in the reference" in cause.summary
    assert cause.fix.startswith(f"apply it {reference_side} the product")


def test_a_gru_by_hand_is_torchs() -> None:
    reference, candidate = Layer(), After()
    candidate.load_state_dict(reference.state_dict())
    assert parity.compare(reference, candidate, (SEQUENCES,), probe=False).ok


# ---- nodes of ONNX files ----

RESIZE = {"op": "Resize", "mode": "linear"}
CUBIC = {"op": "Resize", "mode": "cubic"}
GRU = {"op": "GRU", "hidden_size": 3}
NODES = {
    "positions": (RESIZE, {"coordinate_transformation_mode": "asymmetric"}, "half_pixel"),
    "rounding": ({"op": "Resize", "mode": "nearest", "nearest_mode": "floor"}, {"nearest_mode": "ceil"}, "floor"),
    "coefficient": (CUBIC, {"cubic_coeff_a": -0.5}, -0.75),
    "outside": (CUBIC, {"exclude_outside": 1}, 0),
    "antialias": (RESIZE, {"antialias": 1}, 0),
    "reset": (GRU, {"linear_before_reset": 1}, 0),
    "clip": (GRU, {"clip": 0.25}, None),
    "activations": (GRU, {"activations": ["Sigmoid", "Relu"]}, None),
}


def write(path: Path, *, op: str, **attributes: Any) -> str:
    """Write a file of one node of an operator and activations around it; return its path."""
    generator = np.random.default_rng(0)
    arrays: dict[str, Any] = {"sizes": np.array([1, 2, 4, 9])}
    operands, shape, result = ["b", "", "", "sizes"], (1, 2, 6, 6), (1, 2, 4, 9)
    if op == "GRU":
        shapes = {"W": (1, 9, 4), "R": (1, 9, 3), "B": (1, 18)}
        arrays = {name: generator.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
        operands, shape, result = ["b", "W", "R", "B"], (3, 2, 4), (3, 1, 2, 3)  # type: ignore[assignment]
    nodes = [
        helper.make_node("Tanh", ["x"], ["b"]),
        helper.make_node(op, operands, ["c"], **attributes),
        helper.make_node("Sigmoid", ["c"], ["y"]),
    ]
    kinds = [helper.make_tensor_value_info(name, TensorProto.FLOAT, s) for name, s in (("x", shape), ("y", result))]
    initializers = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "graph", kinds[:1], kinds[1:], initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), path)
    return str(path)


@pytest.mark.causes
@pytest.mark.parametrize("case", NODES)
@pytest.mark.every(6)
def test_attributes_of_a_node_are_named(case: str, tmp_path: Path) -> None:
    attributes, change, reference_value = NODES[case]
    paths = (
        write(tmp_path / "a.onnx", **attributes),
        write(tmp_path / "b.onnx", **attributes | change),
    )
    report = compare_onnx(*paths, probe=False)
    (cause,) = report.cells[""].causes
    ((name, candidate_value),) = change.items()
    candidate_value = tuple(candidate_value) if isinstance(candidate_value, list) else candidate_value
    assert (cause.kind, cause.op, cause.attribute) == ("attribute", attributes["op"], name)
    assert (cause.reference_value, cause.candidate_value) == (reference_value, candidate_value)
    shown = "not given" if reference_value is None else repr(reference_value)
    assert (
        f"in {attributes['op']}, {name} is {candidate_value!r} in the candidate, {shown} in the reference"
        in cause.summary
    )
    assert cause.error < 1e-11


@pytest.mark.causes
def test_an_attribute_has_the_name_that_the_model_gives_it() -> None:
    """`causal` in a program is `is_causal` of torch's function, which is what a person has to write."""

    class Attention(nn.Module):
        def __init__(self, *, hides_later: bool) -> None:
            super().__init__()
            self._hides_later = hides_later

        def forward(self, x: Tensor) -> Tensor:
            return functional.scaled_dot_product_attention(x, x, x, is_causal=self._hides_later)

    cause = the_cause(Attention(hides_later=True), Attention(hides_later=False), SEQUENCES[None])
    assert cause.summary.endswith("is_causal is False in the candidate, True in the reference")


class Attention(nn.Module):
    """Masks what follows by itself or by a switch, which is also the name of an attribute."""

    def __init__(self, *, switched: bool, scale: float) -> None:
        super().__init__()
        self.is_causal, self._switched, self._scale = True, switched, scale

    def forward(self, x: Tensor) -> Tensor:
        mask = (
            None if self._switched else torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool, device=x.device).tril()
        )
        return functional.scaled_dot_product_attention(x, x, x, mask, is_causal=self._switched, scale=self._scale)


@pytest.mark.causes
def test_settings_that_change_nothing_are_no_cause() -> None:
    networks = Attention(switched=False, scale=0.5), Attention(switched=True, scale=1.0)
    cause = the_cause(*networks, torch.randn(2, 2, 4, 3))
    assert (cause.summary, cause.fix) == ("scale is 1 in the candidate, 0.5 in the reference", "use scale=0.5")


@pytest.mark.causes
def test_a_switch_of_the_module_isnt_one_of_an_operation() -> None:
    networks = Attention(switched=False, scale=0.5), Attention(switched=True, scale=0.5)
    networks[0].forward = lambda x: functional.scaled_dot_product_attention(x, x, x, scale=0.5)  # type: ignore[method-assign]
    cause = the_cause(*networks, torch.randn(2, 2, 4, 3))
    assert cause.fix == "use is_causal=False"
