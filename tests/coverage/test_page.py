"""docs/coverage.md agrees with the gap lists."""

from __future__ import annotations

import re

import pytest

from tests.coverage import page, summary, torchvision_operators

STALE = "stale: run `python -m tests.coverage.page`"


def test_the_section_on_operators_is_up_to_date() -> None:
    pytest.importorskip("expecttest")
    pins = (page.PAGE.parents[1] / "constraints.txt").read_text()
    pinned = re.findall(r"^torch==(\d+\.\d+)", pins, re.MULTILINE)
    if pinned != [page.torch_release().removeprefix("torch ")]:
        pytest.skip(f"the page counts the entries of the pinned release, not of {page.torch_release()}")
    assert "\n".join([*page.HEAD, *page.operators()]) in page.PAGE.read_text(), STALE


@pytest.mark.slow  # onnx computes what its tests expect, window by window
def test_the_section_on_onnx_is_up_to_date() -> None:
    assert "\n".join(page.backend_tests()) in page.PAGE.read_text(), STALE


def test_the_section_on_families_is_up_to_date() -> None:
    torchvision_operators.declare()
    for library in ("timm", "diffusers", "transformers"):
        pytest.importorskip(library)
    assert "\n".join(page.families()) in page.PAGE.read_text(), STALE


def test_the_measured_coverage_is_up_to_date() -> None:
    pytest.importorskip("expecttest")
    for library in ("timm", "diffusers", "transformers"):
        pytest.importorskip(library)
    results = page.PAGE.parents[1] / "benchmarks" / "RESULTS.md"
    assert summary.summary() in results.read_text(encoding="utf-8"), "stale: run `python -m benchmarks coverage`"
