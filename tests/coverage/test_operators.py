"""torch's operator database: each entry passes or fails as the gap list says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cellbridge.parity.inputs.generated_cases import case_names, run_check
from cellbridge.parity.inputs.user_source import open_source
from cellbridge.runtime import ops
from tests.coverage import gaps, operators
from tests.coverage.operators import Outcome, database, differences, disagreements, try_entry
from tests.coverage.sweeping import SWEEPS, failures, sweep

GAPS = gaps.read()
LEAST = {"forward": 0.95, "backward": 0.95, "onnx": 0.8}


@pytest.mark.slow
def test_entries(tmp_path: Path) -> None:
    pytest.importorskip("expecttest")
    assert failures(sweep([str(SWEEPS / "operators.py")], tmp_path / "operators.db")) == []


def test_the_sweep_has_each_entry_once() -> None:
    names = case_names(open_source(str(SWEEPS / "operators.py")), "operators.py", "checks")
    entries = list(database())
    assert names[0].startswith(f"{entries[0]} to ")
    assert names[-1].endswith(f" to {entries[-1]}")
    assert len(names) == -(-len(entries) // 8)


def test_the_sweep_finds_a_stale_gap_list(monkeypatch: pytest.MonkeyPatch) -> None:
    source = open_source(str(SWEEPS / "operators.py"))
    vars(source)["try_entry"] = lambda name, samples: Outcome(name, tried=1, onnx=["far off"])
    failure = run_check(source, "operators.py", case_names(source, "operators.py", "checks")[0])
    assert "fails onnx: far off" in str(failure)


def test_enough_of_the_database_passes() -> None:
    shares = {share.kind: share.share for share in gaps.shares(GAPS, database())}
    assert all(shares[kind] >= least for kind, least in LEAST.items()), shares


def test_the_gap_list_names_entries() -> None:
    assert {entry for gap in GAPS for entry in gap.entries} <= set(database())


def test_a_stale_gap_list_is_found() -> None:
    known = [gaps.Gap("onnx", "why", ("a",)), gaps.Gap(gaps.NOT_EXPORTED, "why", ("b",))]
    assert disagreements(Outcome("a", tried=2, onnx=["wrong"]), known) == []
    assert disagreements(Outcome("a", tried=2, onnx=[]), known) == ["a passes onnx, the gaps say it doesn't"]
    assert disagreements(Outcome("c", tried=2, backward=["far off"]), known) == ["c fails backward: far off"]
    assert disagreements(Outcome("b", tried=1), known) == ["b is taken, the gaps say it isn't"]
    assert disagreements(Outcome("b", refused=["no"]), known) == []
    assert disagreements(Outcome("c", refused=["no"]), known) == ["c isn't taken at all: no"]


def test_an_entry_that_fails_forward_fails_in_every_kind() -> None:
    class Entry:
        supports_autograd = True

    entries: dict[str, Any] = dict.fromkeys("abcd", Entry())
    known = [gaps.Gap("forward", "", ("a",)), gaps.Gap("onnx", "", ("b",)), gaps.Gap(gaps.NOT_EXPORTED, "", ("d",))]
    assert [(s.kind, s.passed, s.tried) for s in gaps.shares(known, entries)] == [
        ("forward", 2, 3), ("backward", 2, 3), ("onnx", 1, 3)
    ]  # fmt: skip


# ---- the checker itself ----


@pytest.mark.slow
def test_operators_that_pass() -> None:
    for name in ("sin", "empty_like", "nn_functional_dropout"):
        outcome = try_entry(name, samples=2)
        assert outcome.tried, name
        assert not any(getattr(outcome, kind) for kind in gaps.KINDS), outcome


@pytest.mark.parametrize(
    ("rule", "wrong", "kind"),
    [
        ("kernel_rule", lambda x: np.sin(x) * (1 + 1e-3), "forward"),
        ("vjp_rule", lambda g, y, x: g * y, "backward"),
        ("onnx_rule", lambda graph, x: graph.op("Cos", x), "onnx"),
    ],
)
@pytest.mark.every(3)
def test_a_planted_fault_is_found(monkeypatch: pytest.MonkeyPatch, rule: str, wrong: Any, kind: str) -> None:
    monkeypatch.setattr(ops.get("sin"), rule, wrong)
    outcome = try_entry("sin", samples=2)
    assert getattr(outcome, kind), outcome
    assert all(not getattr(outcome, other_kind) for other_kind in gaps.KINDS if other_kind != kind)


def test_a_missing_translation_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(operators_table(), "aten.sin.default")
    assert "unsupported aten.sin.default" in try_entry("sin", samples=1).forward[0]


def operators_table() -> dict[str, Any]:
    from cellbridge.converter.capture.tables.table import TABLE

    return TABLE


def test_differences_are_told() -> None:
    x = torch.tensor([1.0, float("nan"), float("inf")])
    same = np.array([1.0, np.nan, np.inf], np.float32)
    assert differences([x], [same], torch.float32) == ""
    assert "differs by" in differences([x], [same * np.float32(1.001)], torch.float32)
    assert "finite elsewhere" in differences([x], [np.array([1.0, 0.0, np.inf], np.float32)], torch.float32)
    assert "float64" in differences([x], [same.astype(np.float64)], torch.float32)
    assert "for 1" in differences([x], [same, same], torch.float32)
    assert differences([x], [same * 2], torch.float32, values=False) == ""


def test_samples_that_give_no_tensor_are_not_counted() -> None:
    outcome = try_entry("item", samples=1)
    assert outcome.tried == 0
    assert all("gives no tensor" in line for line in outcome.refused)
    assert operators.dtypes_of(database()["item"]) == [torch.float32, torch.float64]
