"""Tensors of which a recording has a summary alone: all that the summary says is compared."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from cellbridge import parity
from cellbridge.parity.report.report import Report
from cellbridge.recorder import Recorder, summary
from cellbridge.runtime.errors import UsageError
from tests.parity.checking.recordings.networks import FAULTS, after, make, record_elsewhere, record_reference

Change = Callable[[dict[str, Any]], Any]


def change_summaries(recording: Path, change: Change, role: str = "", cell: str = "", slot: str = "") -> None:
    index = json.loads((recording / "recording.json").read_text())
    chosen = [
        entry["summary"]
        for entry in index["tensors"]
        if "summary" in entry
        and (not role or (entry["role"], entry.get("cell", ""), entry["slot"]) == (role, cell, slot))
    ]
    assert chosen
    for kept in chosen:
        change(kept)
    (recording / "recording.json").write_text(json.dumps(index))


def without_elements(kept: dict[str, Any]) -> None:
    kept.update(indices=[], values=[])


def without_statistics(kept: dict[str, Any]) -> None:
    """As the first release of the format had it: the norm and some elements alone."""
    for name in ("mean", "least", "greatest", "finite"):
        del kept[name]


FORMS: dict[str, Change] = {
    "as it is": lambda summary: None,
    "without elements": without_elements,
    "with the norm and elements alone": without_statistics,
}


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recordings") / "ref.rec"
    record_reference(path)
    return path


def judge(reference: Path, candidate: Path) -> Report:
    return parity.judge(reference, candidate, diagnose_seconds=0)


def against(_: Path, candidate: Path) -> Report:
    module, x = make()
    return parity.compare(module, candidate, (x,), diagnose_seconds=0)


WAYS = [judge, against]


@pytest.mark.parametrize(
    ("way", "form", "dtype"),
    [
        *((judge, form, dtype) for form in FORMS for dtype in (torch.float32, torch.float64)),
        (against, "as it is", torch.float64),
        (against, "without elements", torch.float32),
    ],
)
@pytest.mark.every(6)
def test_the_same_network_agrees_by_its_summaries(
    reference: Path, tmp_path: Path, way: Callable[[Path, Path], Report], form: str, dtype: torch.dtype
) -> None:
    record_elsewhere(tmp_path / "small.rec", dtype=dtype, budget=0)
    change_summaries(tmp_path / "small.rec", FORMS[form])
    report = way(reference, tmp_path / "small.rec")
    assert report.ok, str(report)
    assert any("weren't recorded whole" in note for note in report.notes)


def put(place: tuple[int, ...], value: float) -> Callable[[torch.Tensor], torch.Tensor]:
    def changed(y: torch.Tensor) -> torch.Tensor:
        mask = torch.zeros_like(y, dtype=torch.bool)
        mask[place] = True
        return torch.where(mask, torch.full_like(y, value), y)

    return changed


ELEMENTS = {"off by one": 1.0, "infinite": np.inf, "not a number": np.nan, "far too large": 1e9}


@pytest.mark.parametrize(
    ("way", "form", "name"),
    [
        *((judge, form, name) for form in FORMS for name in ELEMENTS),
        *((against, "without elements", name) for name in ELEMENTS),
    ],
)
@pytest.mark.every(6)
def test_one_wrong_element_is_found_by_the_summary(
    reference: Path, tmp_path: Path, way: Callable[[Path, Path], Report], form: str, name: str
) -> None:
    number = ELEMENTS[name]
    change = put((1, 3, 2), number)
    if name == "off by one":
        change = lambda y: y + put((1, 3, 2), number)(torch.zeros_like(y))  # noqa: E731
    record_elsewhere(tmp_path / "bad.rec", lambda net: after(net.head, change), budget=0)
    change_summaries(tmp_path / "bad.rec", FORMS[form])
    report = way(reference, tmp_path / "bad.rec")
    assert "head" in report.failing, str(report)


@pytest.mark.parametrize(
    ("way", "name"),
    [
        *((judge, name) for name in ("eps of a norm", "the first layer", "a gradient", "code around Cells")),
        (against, "an activation"),
    ],
)
@pytest.mark.every(3)
def test_faults_are_found_without_elements(
    reference: Path, tmp_path: Path, way: Callable[[Path, Path], Report], name: str
) -> None:
    fault, path = FAULTS[name]
    record_elsewhere(tmp_path / "bad.rec", fault, budget=0)
    change_summaries(tmp_path / "bad.rec", without_elements)
    report = way(reference, tmp_path / "bad.rec")
    assert path in report.failing, str(report)


def summarize(recording: Path, role: str, name: str, **fields: float) -> None:
    """Leave of one tensor a summary alone, and add to its numbers."""
    index = json.loads((recording / "recording.json").read_text())
    (entry,) = [
        tensor
        for tensor in index["tensors"]
        if (tensor["role"], f"{tensor.get('cell', '')}/{tensor['slot']}") == (role, name)
    ]
    array = load_file(recording / entry.pop("file"))[entry.pop("key")]
    entry["summary"] = summary(array, entry["dtype"]) | {"indices": [], "values": []}
    for field, more in fields.items():
        entry["summary"][field] += more
    (recording / "recording.json").write_text(json.dumps(index))


TENSORS = {
    "the network's output": ("output", "/['scores']"),
    "an output": ("output", "blocks.1.act/result"),
    "a gradient": ("input_gradient", "blocks.1.act/input"),
    "a gradient of a parameter": ("parameter_gradient", "/head.weight"),
    "a parameter": ("parameter", "/head.weight"),
}
NUMBERS = [(tensor, "norm") for tensor in TENSORS]
NUMBERS += [("an output", name) for name in ("mean", "least", "greatest", "finite")]


@pytest.mark.parametrize(("tensor", "number"), NUMBERS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.every(12)
def test_each_number_of_a_summary_is_compared(
    reference: Path, tmp_path: Path, way: Callable[[Path, Path], Report], tensor: str, number: str
) -> None:
    for name, more in (("same", 0), ("bad", 1)):
        record_elsewhere(tmp_path / name)
        summarize(tmp_path / name, *TENSORS[tensor], **{number: more})
        report = way(reference, tmp_path / name)
        assert report.failed == bool(more), str(report)
        assert report.ok == (not more), str(report)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.every(2)
def test_parameters_of_other_bytes_differ(reference: Path, tmp_path: Path, way: Callable[[Path, Path], Report]) -> None:
    """Two rows are exchanged, which no number on all elements shows."""

    def exchange(net: Any) -> None:
        net.blocks[0].attention.query.weight.data[[0, 1]] = net.blocks[0].attention.query.weight.data[[1, 0]]

    record_elsewhere(tmp_path / "bad.rec", exchange, budget=0)
    change_summaries(tmp_path / "bad.rec", without_elements)
    report = way(reference, tmp_path / "bad.rec")
    assert "the checksums differ" in str(report)
    assert "blocks.0.attention.query" in report.failing


def record_integers(path: Path, numbers: Any, **options: Any) -> None:
    with Recorder(path, **options) as recorder:
        recorder.cell("", inputs=np.ones(3, np.float32), outputs=np.asarray(numbers))


@pytest.mark.parametrize(
    ("numbers", "others"),
    [
        (np.array([2**53 + 1, 5], np.int64), np.array([2**53, 5], np.int64)),
        (np.array([2**64 - 1, 5], np.uint64), np.array([2**64 - 2, 5], np.uint64)),
        (np.array([1, -128, 127], np.int8), np.array([1, -127, 127], np.int8)),
        (np.array([True, False, True]), np.array([True, True, True])),
        (np.arange(1000), np.arange(1000)[::-1].copy()),
    ],
)
@pytest.mark.parametrize("form", ["as it is", "without elements"])
def test_integers_are_compared_exactly(tmp_path: Path, numbers: Any, others: Any, form: str) -> None:
    record_integers(tmp_path / "ref", numbers)
    for name, values in (("same", numbers), ("bad", others)):
        record_integers(tmp_path / name, values, budget=12)
        change_summaries(tmp_path / name, FORMS[form])
    assert judge(tmp_path / "ref", tmp_path / "same").ok
    assert judge(tmp_path / "ref", tmp_path / "bad").failing == [""]


@pytest.mark.slow
def test_both_sides_may_have_summaries(tmp_path: Path) -> None:
    record_reference(tmp_path / "ref.rec", budget=0)
    change_summaries(tmp_path / "ref.rec", without_elements)
    record_elsewhere(tmp_path / "same.rec", budget=0)
    report = judge(tmp_path / "ref.rec", tmp_path / "same.rec")
    assert report.ok, str(report)
    record_elsewhere(tmp_path / "bad.rec", FAULTS["code around Cells"][0], budget=0)
    assert "blocks.1" in judge(tmp_path / "ref.rec", tmp_path / "bad.rec").failing


@pytest.mark.slow
def test_a_reference_without_float64_judges_summaries(tmp_path: Path) -> None:
    record_reference(tmp_path / "ref.rec", float64=False)
    for form, change in FORMS.items():
        record_elsewhere(tmp_path / f"{form}.rec", budget=0)
        change_summaries(tmp_path / f"{form}.rec", change)
        assert judge(tmp_path / "ref.rec", tmp_path / f"{form}.rec").ok
    record_elsewhere(tmp_path / "bad.rec", FAULTS["code around Cells"][0], budget=0)
    change_summaries(tmp_path / "bad.rec", without_elements)
    assert "blocks.1" in judge(tmp_path / "ref.rec", tmp_path / "bad.rec").failing


@pytest.mark.parametrize("shapes", [((4, 6), (6, 4)), ((4, 6), (24,)), ((4, 6), (4, 7))])
def test_another_shape_is_no_pass(tmp_path: Path, shapes: Any) -> None:
    for name, shape in zip(("ref", "bad"), shapes, strict=True):
        with Recorder(tmp_path / name, budget=0 if name == "bad" else None) as recorder:
            recorder.cell("", outputs=np.ones(shape, np.float32))
    report = judge(tmp_path / "ref", tmp_path / "bad")
    assert report.failing == [""]
    assert f"needed {list(shapes[0])}" in str(report)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.every(2)
def test_other_inputs_are_refused_by_their_summaries(
    reference: Path, tmp_path: Path, way: Callable[[Path, Path], Report]
) -> None:
    record_elsewhere(tmp_path / "bad.rec", budget=0)
    change_summaries(tmp_path / "bad.rec", without_elements)
    change_summaries(tmp_path / "bad.rec", lambda summary: summary.update(norm=3.0), "input", "", "x")
    with pytest.raises(UsageError, match="the recordings have different inputs: x has norm 3, needed"):
        way(reference, tmp_path / "bad.rec")


def test_a_map_transposes_a_summary(tmp_path: Path) -> None:
    y = np.random.default_rng(0).standard_normal((3, 5, 7)).astype(np.float32)
    (tmp_path / "names.toml").write_text('[cells]\nnet = { cell = "net", transpose = [0, 2, 1] }\n')
    for name, value in (("ref", y), ("same", y.transpose(0, 2, 1)), ("bad", -y.transpose(0, 2, 1))):
        with Recorder(tmp_path / name, budget=None if name == "ref" else 0) as recorder:
            recorder.cell("net", outputs=value)
    reports = [
        parity.judge(tmp_path / "ref", tmp_path / name, names=tmp_path / "names.toml") for name in ("same", "bad")
    ]
    assert [report.failed for report in reports] == [False, True], "\n".join(map(str, reports))


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "an integer beyond all": ({"norm": 10**400}, "norm: needed numbers"),
    "a negative norm": ({"norm": -1.0}, "norm: needed a number of at least 0"),
    "no norm": ({"norm": None}, "norm: needed numbers"),
    "a text": ({"least": "x"}, "least: needed numbers"),
    "a list": ({"mean": []}, "mean: needed numbers"),
    "a place twice": ({"indices": [0, 0], "values": [1, 1]}, "indices: needed different places"),
    "a value too many": ({"indices": [0], "values": [1, 1]}, "values: needed 1 values"),
    "a place outside": ({"indices": [10**6], "values": [1]}, "indices: needed different places"),
}


@pytest.mark.every(2)
@pytest.mark.parametrize("name", BAD)
def test_a_summary_that_is_wrong_is_refused(reference: Path, tmp_path: Path, name: str) -> None:
    fields, message = BAD[name]
    record_elsewhere(tmp_path / "bad.rec", budget=0)
    change_summaries(tmp_path / "bad.rec", lambda summary: summary.update(fields))
    with pytest.raises(UsageError, match=message):
        judge(reference, tmp_path / "bad.rec")


@pytest.mark.parametrize("values", [[1e300, 0], [0.5, 0], ["nan", 0], ["inf", 0], [-129, 0]])
def test_values_that_the_dtype_cannot_hold_are_refused(tmp_path: Path, values: Any) -> None:
    record_integers(tmp_path / "ref", np.array([1, 2], np.int8), budget=12)
    change_summaries(tmp_path / "ref", lambda summary: summary.update(values=values, indices=[0, 1]))
    with pytest.raises(UsageError, match="values: needed numbers that int8 can hold"):
        judge(tmp_path / "ref", tmp_path / "ref")
