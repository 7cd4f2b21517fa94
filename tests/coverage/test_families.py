"""Every case of every family, in both modes; `families_gaps.toml` lists failures with reasons."""

from __future__ import annotations

import re

import pytest

from tests.coverage import torchvision_operators

torchvision_operators.declare()
pytest.importorskip("timm")
pytest.importorskip("diffusers")
pytest.importorskip("transformers")

from tests.coverage.families import CASES, gaps_by_case, try_family  # noqa: E402
from tests.coverage.family_cases.case import Case  # noqa: E402

GAPS = gaps_by_case()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["eval", "train"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_parity_holds(case: Case, mode: str) -> None:
    why = try_family(case, train=mode == "train")
    gap = GAPS.get(case.name, {}).get(mode)
    if gap is None:
        assert why == ""
    else:
        assert why, f"{case.name} holds in {mode} mode: strike it from families_gaps.toml"
        assert re.search(gap["says"], why), f"it fails otherwise than families_gaps.toml says:\n{why}"


def test_names_of_cases_are_unique() -> None:
    names = [case.name for case in CASES]
    assert sorted(set(names)) == sorted(names)


def test_gaps_name_cases_and_give_reasons() -> None:
    assert set(GAPS) <= {case.name for case in CASES}
    assert all(gap["reason"].strip() and gap["says"] for modes in GAPS.values() for gap in modes.values())
