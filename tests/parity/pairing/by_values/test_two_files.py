"""Two ONNX files with Cells of other names, or none: a fault is placed in a Cell of the first."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import onnx
import pytest

from cellbridge.parity.checking.onnx_files.compare import compare_onnx
from cellbridge.parity.report.report import Report

from .networks import Layers, Words, change_element, change_operand, network, own_export, set_attribute
from .test_faults import FORMS


def compare(folder: Path, kind: Any, plant: Any, forms: tuple[str, str]) -> Report:
    module, args = network(kind)
    models = [own_export(module, args)]
    models.append(copy.deepcopy(models[0]))
    if plant is not None:
        plant(models[1])
    paths = [str(folder / name) for name in ("first.onnx", "second.onnx")]
    for model, form, path in zip(models, forms, paths, strict=True):
        onnx.save(FORMS[form](model), path)
    return compare_onnx(*paths)


@pytest.mark.parametrize("forms", [("own export", "no names"), ("metadata of torch", "own export")])
@pytest.mark.every(2)
@pytest.mark.slow
def test_a_fault_is_placed(tmp_path: Path, forms: tuple[str, str]) -> None:
    report = compare(tmp_path, Words, set_attribute("LayerNormalization", 2, "epsilon", 1e-6), forms)
    assert report.failing == ["blocks.1.norm1"]
    assert any("they were found by their values" in note for note in report.notes)
    assert not any("as a whole" in note for note in report.notes)


@pytest.mark.causes
@pytest.mark.slow
def test_its_cause_is_named(tmp_path: Path) -> None:
    fault = set_attribute("LayerNormalization", 2, "epsilon", 1e-6)
    report = compare(tmp_path, Words, fault, ("own export", "no names"))
    (cause,) = report.cells["blocks.1.norm1"].causes
    assert (cause.attribute, cause.reference_value, cause.candidate_value) == ("eps", 1e-5, 1e-6)


def test_the_same_file_without_names_is_the_same(tmp_path: Path) -> None:
    report = compare(tmp_path, Layers, None, ("own export", "no names"))
    assert report.ok
    assert "the models were compared as a whole: their Cells or parameters are not the same" in report.notes


def test_the_file_that_names_cells_is_asked_for_first(tmp_path: Path) -> None:
    fault = change_operand("Gemm", 1, 1, change_element)
    report = compare(tmp_path, Layers, fault, ("no names", "own export"))
    assert report.failing == [""]
    assert any("give the file that names Cells first" in note for note in report.notes)
