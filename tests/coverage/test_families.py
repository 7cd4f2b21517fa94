"""Every case of every family, in both modes; `families_gaps.toml` lists failures with reasons.

The models are judged by `parity sweep`, each in a process of its own: 500 of them take the better part of an hour.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.coverage import sweeping, torchvision_operators

torchvision_operators.declare()
pytest.importorskip("timm")
pytest.importorskip("diffusers")
pytest.importorskip("transformers")

from tests.coverage.families import CASES, gaps_by_case  # noqa: E402

GAPS = gaps_by_case()
SWEEP = sweeping.SWEEPS / "families.py"


def sweep(database: Path, mode: str, *names: str) -> dict[str, str]:
    """Judge the cases of these names, or all, and return why each fails; empty where parity holds."""
    models = [f"{SWEEP}[{name}]" for name in names] or [str(SWEEP)]
    store = sweeping.sweep(models, database, "--", "--round-trip", f"--{mode}")
    reasons = {}
    for model, result in store.results().items():
        why = ""
        if result.outcome != "holds":
            verdict = store.report(model)["network_verdict"] if result.outcome != "not judged" else ""
            why = f"{result.outcome}: {result.reason} {result.output} {verdict}"
        reasons[re.sub(r".*\[(.*)\]", r"\1", model)] = why
    return reasons


def disagreements(reasons: dict[str, str], mode: str) -> list[str]:
    """Return the cases that fail and aren't listed, or are listed and fail otherwise, or not at all."""
    lines = []
    for name, why in reasons.items():
        gap = GAPS.get(name, {}).get(mode)
        if gap is None:
            lines += [f"{name}: {why}"] if why else []
        elif not why:
            lines.append(f"{name} holds in {mode} mode: strike it from families_gaps.toml")
        elif not re.search(gap["says"], why):
            lines.append(f"{name} fails otherwise than families_gaps.toml says: {why}")
    return lines


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["eval", "train"])
def test_parity_holds(tmp_path: Path, mode: str) -> None:
    reasons = sweep(tmp_path / "families.db", mode)
    assert reasons.keys() == {case.name for case in CASES}
    assert disagreements(reasons, mode) == []


@pytest.mark.slow
def test_a_sweep_says_what_fails_and_why(tmp_path: Path) -> None:
    reasons = sweep(tmp_path / "some.db", "eval", "BertModel", "LongformerModel", "YosoModel", "ReformerModel")
    assert [name for name, why in reasons.items() if not why] == ["BertModel"]
    assert disagreements(reasons, "eval") == []


def test_disagreements_are_found() -> None:
    name = next(name for name, modes in GAPS.items() if "eval" in modes)
    assert disagreements({name: ""}, "eval") == [f"{name} holds in eval mode: strike it from families_gaps.toml"]
    assert disagreements({name: "fails: other"}, "eval")[0].startswith(f"{name} fails otherwise")
    assert disagreements({"BertModel": "fails: x", "T5Model": ""}, "eval") == ["BertModel: fails: x"]


def test_names_of_cases_are_unique() -> None:
    names = [case.name for case in CASES]
    assert sorted(set(names)) == sorted(names)


def test_gaps_name_cases_and_give_reasons() -> None:
    assert set(GAPS) <= {case.name for case in CASES}
    assert all(gap["reason"].strip() and gap["says"] for modes in GAPS.values() for gap in modes.values())
