"""The twins are what they claim to be, and what is said of them is judged as the benchmark says."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from benchmarks.faults.tools.finding import Finding
from benchmarks.twins import loading, table
from benchmarks.twins.measuring import PARTS, coverage, faults_of, judged, measure
from benchmarks.twins.planted import FAULTS
from benchmarks.twins.proving import problems
from benchmarks.twins.twin import PAIRS, Twin, twins
from cellbridge.runtime.errors import UsageError
from fixtures.planted_faults.cases import Case
from fixtures.planted_faults.pairs import Pair
from fixtures.planted_faults.source_edits import edited_text

QUICK = "unet/skip last"


def _problems(name: str) -> list[str]:
    twin = twins()[name]
    return list(problems(twin, tuple(faults_of(twin).values())))


def test_every_pair_has_two_faults_in_its_own_file() -> None:
    assert FAULTS.keys() == twins().keys()
    assert all(len(faults) == 2 for faults in FAULTS.values())
    assert all(name.startswith(f"{twin.family}/") for name, twin in twins().items())
    for name, faults in FAULTS.items():
        for fault in faults:
            edited_text(PAIRS, twins()[name].family, [(fault.old, fault.new)])  # raises if a text doesn't occur once


def test_a_pair_and_its_faults_are_what_they_claim() -> None:
    assert _problems(QUICK) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", twins())
def test_every_pair_and_its_faults_are_what_they_claim(name: str) -> None:
    assert _problems(name) == []


def _linear(bias: bool = True, factor: float = 1.0) -> Twin:
    class Scaled(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * factor

    def port(reference: nn.Module) -> nn.Module:
        module = Scaled(4, 3, bias=bias)
        module.load_state_dict({name: w for name, w in reference.state_dict().items() if bias or name == "weight"})
        return module

    return Twin("linear/same", lambda: nn.Linear(4, 3), port, lambda: (torch.randn(2, 4),))


def test_a_pair_that_is_not_sound_is_a_problem() -> None:
    assert list(problems(_linear(), ())) == []
    assert any("differs by" in line for line in problems(_linear(factor=1 + 1e-6), ()))
    assert any("the gradient of bias" in line for line in problems(_linear(bias=False), ()))


def test_a_gradient_that_is_stopped_is_a_problem() -> None:
    class Stopped(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.linear(x, self.weight, self.bias.detach())

    def port(reference: nn.Module) -> nn.Module:
        module = Stopped(4, 3)
        module.load_state_dict(reference.state_dict())
        return module

    assert [line.split(" is ")[0] for line in problems(replace(_linear(), port=port), ())] == [
        "linear/same: the gradient of bias"
    ]


def test_a_fault_that_changes_nothing_is_a_problem() -> None:
    twin = twins()[QUICK]
    same = replace(faults_of(twin)["code"], old="F.max_pool2d(x, 2)", new="F.max_pool2d(x, 2, stride=2)")
    assert [line.partition(":")[2].partition(",")[0] for line in problems(twin, (same,))] == [" changes nothing"]


def _case(*cells: str) -> Case:
    expected = () if not cells else ({"kind": "weight", "words": ("transpose",)},)
    return Case("a/b", "a", "weights" if cells else "sound", cells, "", expected, (), lambda: Pair(None, None))


def test_wrong_answers_are_judged_as_wrong() -> None:
    cause = SimpleNamespace(kind="weight", summary="weight is transposed", op="", attribute="weight")
    right = judged(_case("fc"), Finding(True, frozenset({"fc"}), {"fc": [cause]}))
    assert (right["found"], right["placed"], right["cause"], right["innocent"]) == (True, True, True, 0)
    around = judged(_case("fc"), Finding(True, frozenset({""}), {"": [cause]}))
    assert (around["found"], around["placed"], around["cause"], around["innocent"]) == (True, False, False, 0)
    beside = judged(_case("fc"), Finding(True, frozenset({"", "act"}), {"": [cause], "act": [cause]}))
    assert (beside["found"], beside["placed"], beside["cause"], beside["innocent"]) == (True, False, False, 1)
    silent = judged(_case("fc"), Finding(False))
    assert (silent["found"], silent["placed"], silent["cause"]) == (False, False, False)
    assert not judged(_case(), Finding(True, frozenset({"fc"})))["holds"]
    assert not judged(_case(), Finding(False, error="usage error: none"))["holds"]
    assert judged(_case(), Finding(False))["holds"]


def test_coverage_counts_cells_that_were_compared_and_tied_parameters_once() -> None:
    module = nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.Linear(3, 3), "c": nn.ReLU()})
    module["b"].weight = module["a"].weight

    def cell(*kinds: tuple[str, str], presence: str | None = None) -> Any:
        return SimpleNamespace(
            presence=presence, comparisons=[SimpleNamespace(kind=k, tensor=t, status="pass") for k, t in kinds]
        )

    cells = {
        "a": cell(("output", "result"), ("parameter gradient", "a.bias")),
        "b": cell(("parameter gradient", "b.weight"), presence="unpaired"),
        "c": cell(("output", "result")),
    }
    shares = coverage(module, SimpleNamespace(cells=cells))
    assert shares == {"cells_paired": [1, 2], "gradients_compared": [2, 3]}
    cells["b"].presence = "not reached"
    assert coverage(module, SimpleNamespace(cells=cells))["cells_paired"] == [1, 1]
    assert coverage(module, None) == {"cells_paired": [0, 2], "gradients_compared": [0, 3]}


@pytest.mark.probes
def test_a_sound_pair_and_a_fault_are_measured() -> None:
    row = {"pair": QUICK, **{part: measure(QUICK, part) for part in ("sound", "code")}}
    row["weights"] = {**row["code"], "found": False, "innocent": 3}
    assert row["sound"]["holds"]
    assert row["sound"]["gradients_compared"][1] == 36
    assert row["sound"]["gradients_compared"][0] > 20
    assert row["code"]["found"]
    assert row["code"]["cells"] == ["down1.maxpool_conv.0", "down2.maxpool_conv.0"]
    lines = table.text([row]).splitlines()
    assert lines[1].startswith(QUICK)
    assert any(line.split()[:3] == ["sound", "pairs", "hold"] and line.endswith("  met") for line in lines)
    assert any(line.split()[:3] == ["faults", "found", "1/2"] and line.endswith("not met") for line in lines)
    assert any(line.startswith("innocent") and line.endswith("not met") for line in lines)
    assert len(PARTS) == 3


@pytest.mark.slow
def test_a_pair_that_is_refused_has_nothing_right(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise UsageError("weights can't be loaded by structure\n  what to do: write a map file")

    monkeypatch.setattr(loading, "load_by_structure", refuse)
    row = loading.measure_loading("gpt2/split")
    assert (row["complete"], row["right"], row["error"]) == (False, [0, 36], "weights can't be loaded by structure")
    assert "0/1" in loading.text([row])
