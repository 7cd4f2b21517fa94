"""Results of networks: tensors are paired by their place; structures, dtypes and other values are compared."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, UserDict, namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from cellbridge import converter, parity
from cellbridge.parity.checking.onnx_files.compare import compare_onnx
from cellbridge.parity.correspondence.structures import format_structure, match_results
from cellbridge.parity.options import Options
from cellbridge.parity.pairing.modules.answers import Returned, answers_between
from cellbridge.runtime import Tensor as CellTensor
from cellbridge.runtime import nn as cells
from cellbridge.runtime import ops
from cellbridge.runtime.tree import flatten

X = torch.linspace(-2.0, 2.0, 12).reshape(3, 4).sin()
Fields = namedtuple("Fields", ["a", "b"])
Exchanged = namedtuple("Exchanged", ["b", "a"])


@dataclasses.dataclass
class Output:
    a: Tensor
    b: Tensor


class Returns(nn.Module):
    """A Linear, and what is returned of it and its tanh."""

    def __init__(self, form: Callable[[Tensor, Tensor], Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(4, 4)
        self.form = form

    def forward(self, x: Tensor) -> Any:
        y = self.linear(x)
        return self.form(y, y.tanh())


class Inside(nn.Module):
    """The same as a part of another network."""

    def __init__(self, form: Callable[[Tensor, Tensor], Any], read: Callable[[Any], Tensor]) -> None:
        super().__init__()
        self.part, self.read = Returns(form), read

    def forward(self, x: Tensor) -> Tensor:
        return self.read(self.part(x))


def in_dict(y: Tensor, z: Tensor) -> Any:
    return {"a": y, "b": z}


RIGHT: dict[str, tuple[Any, Any]] = {
    "another order of keys": (in_dict, lambda y, z: {"b": z, "a": y}),
    "a subclass of dict": (in_dict, lambda y, z: OrderedDict(b=z, a=y)),
    "a dataclass": (in_dict, Output),
    "a named tuple": (Fields, lambda y, z: (y, z)),
    "a list": (lambda y, z: (y, z), lambda y, z: [y, z]),
    "nested": (lambda y, z: {"a": (y, {"c": z, "d": None})}, lambda y, z: {"a": (y, {"d": None, "c": z})}),
    "none under a name": (lambda y, z: {"a": y, "b": z, "c": None}, in_dict),
    "numbers": (lambda y, z: (y, 3, 0.5, "mean", True, None), lambda y, z: (y, 3, 0.5, "mean", True, None)),
}
WRONG: dict[str, tuple[Any, Any, str]] = {
    "exchanged keys": (in_dict, lambda y, z: {"b": y, "a": z}, "not the same function"),
    "exchanged fields": (Output, lambda y, z: Output(z, y), "not the same function"),
    "fields in another order": (Fields, lambda y, z: Exchanged(b=z, a=y), "the fields are in another order"),
    "exchanged inside": (lambda y, z: [in_dict(y, z)], lambda y, z: [in_dict(z, y)], "not the same function"),
    "another number": (lambda y, z: (y, 3), lambda y, z: (y, 4), "4, needed 3"),
    "another fraction": (lambda y, z: (y, 0.5), lambda y, z: (y, 0.5001), "not the same function"),
    "a number of another kind": (lambda y, z: (y, 1), lambda y, z: (y, 1.0), "1.0 (float), needed 1 (int)"),
    "another string": (lambda y, z: {"a": y, "b": "mean"}, lambda y, z: {"a": y, "b": "sum"}, "'sum', needed 'mean'"),
    "another bool": (lambda y, z: (y, True), lambda y, z: (y, False), "False, needed True"),
    "float64": (lambda y, z: y, lambda y, z: y.double(), "dtype float64, needed float32"),
    "int32": (lambda y, z: (y, y.argmax(-1)), lambda y, z: (y, y.argmax(-1).int()), "dtype int32, needed int64"),
    "uint8 for bool": (lambda y, z: (y, y > 0), lambda y, z: (y, (y > 0).byte()), "dtype uint8, needed bool"),
}
IN_ANOTHER_CONTAINER: dict[str, tuple[Any, Any, str]] = {
    "other keys": (in_dict, lambda y, z: {"a": y, "c": z}, "['b'] is missing; ['c'] is additional"),
    "a tuple for a dict": (in_dict, lambda y, z: (y, z), "a tuple in the candidate, a dict in the reference"),
    "a dict for a tuple": (lambda y, z: (y, z), in_dict, "a dict in the candidate, a tuple in the reference"),
    "one more": (
        lambda y, z: y,
        lambda y, z: (y, z),
        "returns (tensor, tensor) in the candidate, tensor in the reference",
    ),
    "one less": (lambda y, z: (y, z), lambda y, z: (y,), "[1] is missing"),
    "one in a tuple": (lambda y, z: y, lambda y, z: (y,), "a tuple in the candidate, a tensor in the reference"),
    "nested otherwise": (
        lambda y, z: (y, (z,)),
        lambda y, z: (y, z),
        "at [1] a tensor in the candidate, a tuple in the reference",
    ),
    "a tensor for None": (
        lambda y, z: (y, None),
        lambda y, z: (y, z),
        "at [1] a tensor in the candidate, None in the reference",
    ),
}
"""What modules of a network must not do, and whole networks may: the tensors that both return are compared."""


def reasons(report: parity.Report) -> str:
    return "\n".join(c.reason for cell in report.cells.values() for c in cell.failures)


@pytest.mark.parametrize("case", RIGHT)
@pytest.mark.every(2)
def test_the_same_result_in_another_form_passes(case: str) -> None:
    reference, candidate = RIGHT[case]
    for first, second in ((reference, candidate), (candidate, reference)):
        report = parity.compare(Returns(first), Returns(second), (X,))
        assert report.ok, str(report)


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.every(6)
def test_another_result_fails(case: str) -> None:
    reference, candidate, reason = WRONG[case]
    report = parity.compare(Returns(reference), Returns(candidate), (X,))
    assert report.cells[""].status != "pass"
    assert reason in reasons(report), str(report)


@pytest.mark.parametrize("case", IN_ANOTHER_CONTAINER)
@pytest.mark.every(2)
def test_results_in_another_container_are_compared_and_told(case: str) -> None:
    reference, candidate, _ = IN_ANOTHER_CONTAINER[case]
    for wrong in (False, True):
        network = Returns(lambda y, z, off=float(wrong): candidate(y + off, z + off))
        report = parity.compare(Returns(reference), network, (X,))
        assert report.ok is not wrong, str(report)
        assert any(difference.kind == "other result" for difference in report.structure)
        assert not parity.compare(Returns(reference), network, (X,), strict=True).ok


@pytest.mark.parametrize("case", [*RIGHT, *WRONG, *IN_ANOTHER_CONTAINER])
@pytest.mark.every(18)
def test_what_was_captured_is_right(case: str) -> None:
    for form in {**RIGHT, **WRONG, **IN_ANOTHER_CONTAINER}[case][:2]:
        report = parity.check(Returns(form), (X,))
        assert report.ok, str(report)


def test_wrong_results_in_another_container_are_compared_in_order() -> None:
    ten, eleven, nineteen, twenty = (np.full((2, 3), float(value)) for value in (10, 11, 19, 20))
    scores, both = (
        flatten(tree)[1] for tree in ({"final": CellTensor(ten), "earlier": CellTensor(ten)}, (CellTensor(ten),) * 2)
    )
    reference, candidate = Returned(scores, [ten, twenty]), Returned(both, [nineteen, eleven])
    answers = answers_between(reference, candidate, Options(), is_port=False)
    assert answers is not None
    assert list(answers.pairs) == [(0, 0), (1, 1)]  # and not with the nearest


def test_both_structures_are_shown() -> None:
    report = parity.compare(Returns(in_dict), Returns(lambda y, z: {"a": y, "c": (z, 2)}), (X,))
    assert "returns {a: tensor, c: (tensor, 2)} in the candidate, {a: tensor, b: tensor} in the reference" in reasons(
        report
    )


def test_gradients_are_paired_as_the_outputs_are() -> None:
    report = parity.compare(Returns(in_dict), Returns(lambda y, z: {"b": z, "a": y.detach()}), (X,))
    assert {c.kind for c in report.cells[""].failures} >= {"input gradient"}


def test_parts_that_return_a_dict_in_another_order_are_right() -> None:
    def read(result: Any) -> Tensor:
        return result["a"] * 2 - result["b"]

    right = Inside(lambda y, z: {"b": z, "a": y}, read)
    assert parity.compare(Inside(in_dict, read), right, (X,)).ok
    in_object = Inside(Output, lambda result: result.a * 2 - result.b)
    assert parity.compare(Inside(in_dict, read), in_object, (X,)).ok
    in_tuple = Inside(lambda y, z: (y, z), lambda result: result[0] * 2 - result[1])
    assert parity.compare(Inside(in_dict, read), in_tuple, (X,)).ok
    wrong = Inside(lambda y, z: {"b": y, "a": z}, lambda result: result["b"] * 2 - result["a"])
    report = parity.compare(Inside(in_dict, read), wrong, (X,))
    assert report.cells["part"].status == "fail"


class Port(cells.Cell):
    def __init__(self, form: Callable[[CellTensor, CellTensor], Any]) -> None:
        super().__init__()
        self.linear = cells.Dense(4, 4)
        self.form = form

    def construct(self, x: CellTensor) -> Any:
        y = self.linear(x)
        return self.form(y, ops.tanh(y))


@pytest.mark.parametrize(
    ("reference", "port", "ok"),
    [
        (in_dict, in_dict, True),
        (in_dict, lambda y, z: {"b": z, "a": y}, True),
        (in_dict, lambda y, z: (y, z), True),  # MindSpore's Cells return tuples
        (Output, lambda y, z: (y, z), True),
        (lambda y, z: (y, None), lambda y, z: y, True),
        (lambda y, z: (y, y.argmax(-1)), lambda y, z: (y, y.argmax(-1).astype("int32")), True),
        (in_dict, lambda y, z: {"b": y, "a": z}, False),
        (in_dict, lambda y, z: {"a": y, "c": z}, True),
        (in_dict, lambda y, z: (z, y), False),
        (lambda y, z: (y, 3), lambda y, z: (y, 4), False),
        (lambda y, z: (y, z), lambda y, z: (y, z, z), True),
        (lambda y, z: (y, y > 0), lambda y, z: (y, (y > 0).astype("int32")), False),
        (lambda y, z: y, lambda y, z: y.astype("float64"), False),
    ],
)
def test_a_port(reference: Any, port: Any, ok: bool) -> None:
    report = parity.compare(Returns(reference), Port(port), (X,))
    assert report.ok == ok, str(report)


def test_a_port_that_returns_a_tuple_is_noted() -> None:
    report = parity.compare(Returns(in_dict), Port(lambda y, z: (y, z)), (X,))
    assert any(
        "a tuple in the candidate, a dict in the reference; tensors were paired by position" in note
        for note in report.notes
    )


def test_positions_are_counted_through_what_holds_them() -> None:
    leaf = np.zeros(1)
    _, reference = flatten({"a": [leaf, leaf], "b": {"c": leaf, "d": (1, leaf)}})
    _, candidate = flatten(UserDict({"b": {"d": (1, leaf), "c": leaf}, "a": [leaf, leaf]}))
    matching = match_results(reference, candidate)
    assert matching.partners == [3, 2, 0, 1]
    assert not matching.differences
    assert format_structure(reference) == "{a: [tensor, tensor], b: {c: tensor, d: (1, tensor)}}"


# ---- files ----


def two_outputs(
    path: Path,
    inputs: tuple[str, str] = ("x", "y"),
    outputs: tuple[str, str] = ("sum", "difference"),
    swap: bool = False,
) -> str:
    """A file that computes x + w * y and x - y."""
    nodes = [
        helper.make_node("Mul", ["w", inputs[1]], ["scaled"]),
        helper.make_node("Add", [inputs[0], "scaled"], [outputs[0]]),
        helper.make_node("Sub", [inputs[0], inputs[1]], [outputs[1]]),
    ]
    infos = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, [3]) for n in names] for names in (inputs, outputs)]
    weight = numpy_helper.from_array(np.array([1.5, 2.0, -0.5], np.float32), "w")
    if swap:
        infos[1].reverse()
    graph = helper.make_graph(nodes, "two", *infos, [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return str(path)


def test_outputs_of_two_files_are_paired_by_name(tmp_path: Path) -> None:
    first = two_outputs(tmp_path / "first.onnx")
    assert compare_onnx(first, two_outputs(tmp_path / "order.onnx", swap=True)).ok
    exchanged = two_outputs(tmp_path / "exchanged.onnx", outputs=("difference", "sum"))
    assert not compare_onnx(first, exchanged).ok
    renamed = compare_onnx(first, two_outputs(tmp_path / "renamed.onnx", outputs=("s", "d")))
    assert renamed.ok
    assert any("by position" in note for note in renamed.notes)


def test_inputs_of_two_files_are_paired_by_name(tmp_path: Path) -> None:
    first = two_outputs(tmp_path / "first.onnx")
    assert not compare_onnx(first, two_outputs(tmp_path / "exchanged.onnx", inputs=("y", "x"))).ok


class Two(nn.Module):
    def __init__(self, exchanged: bool = False) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor([1.5, 2.0, -0.5]))
        self.exchanged = exchanged

    def forward(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        results = [x + self.w * y, x - y]
        return dict(zip(("sum", "difference"), reversed(results) if self.exchanged else results, strict=True))


def test_a_module_and_a_file_are_paired_by_name(tmp_path: Path) -> None:
    args = torch.randn(3), torch.randn(3)
    file = two_outputs(tmp_path / "order.onnx", swap=True)
    report = parity.compare(Two(), file, args)
    assert report.ok, str(report)
    assert any("by name" in note and "difference" in note for note in report.notes)
    assert not parity.compare(Two(exchanged=True), file, args).ok
    by_position = parity.compare(Two(), two_outputs(tmp_path / "other.onnx", outputs=("s", "d")), args)
    assert by_position.ok
    assert any("by position" in note for note in by_position.notes)


def test_inputs_of_a_module_and_a_file_are_paired_by_name(tmp_path: Path) -> None:
    args = torch.randn(3), torch.randn(3)
    named = two_outputs(tmp_path / "first.onnx")
    model = onnx.load(named)
    model.graph.input.append(model.graph.input.pop(0))
    onnx.save(model, tmp_path / "order.onnx")
    assert parity.compare(Two(), tmp_path / "order.onnx", args).ok


def test_a_file_with_other_dtypes_is_another(tmp_path: Path) -> None:
    program = converter.from_torch(Returns(lambda y, z: (y, y.argmax(-1))), (X,))
    narrow = converter.from_torch(Returns(lambda y, z: (y, y.argmax(-1).int())), (X,))
    for name, exported in (("first", program), ("second", narrow)):
        converter.to_onnx(exported, tmp_path / f"{name}.onnx")
    files = str(tmp_path / "first.onnx"), str(tmp_path / "second.onnx")
    assert "dtype int32, needed int64" in reasons(compare_onnx(*files))
    assert "dtype int32, needed int64" in reasons(
        parity.compare(Returns(lambda y, z: (y, y.argmax(-1))), files[1], (X,))
    )


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.every(3)
def test_dtypes_are_compared_in_float64_too(dtype: torch.dtype) -> None:
    reference, candidate = Returns(lambda y, z: y), Returns(lambda y, z: y.to(dtype))
    report = parity.compare(reference, candidate, (X,), dtype="float64")
    assert f"dtype {str(dtype)[6:]}, needed float32" in reasons(report), str(report)
    for right in (reference, candidate):
        assert parity.compare(right, right, (X,), dtype="float64").ok
        assert parity.check(right, (X,), dtype="float64").ok


def test_a_network_that_is_float64_throughout_is_as_good_in_float64() -> None:
    double = Returns(lambda y, z: y.float()).double()
    assert parity.check(double, (X.double(),), dtype="float64").ok
