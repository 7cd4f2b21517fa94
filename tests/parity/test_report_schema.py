"""The JSON Schema of the reports, `docs/report.schema.json`, validated with reports of every kind."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from jsonschema import Draft202012Validator
from torch import nn

from cellbridge import parity
from cellbridge.converter import from_torch, to_onnx
from cellbridge.parity.checking.onnx_files.compare import compare_onnx
from cellbridge.parity.report.formats import FORMATS
from cellbridge.parity.results.comparison import NOT_COMPARED, NOT_REACHED, SKIPPED
from cellbridge.runtime import nn as cells
from cellbridge.runtime import value_and_grad
from tests.parity.reports import CONVNET, cell, failing, passing, report, without_comparisons

DOCS = Path(__file__).parents[2] / "docs"
SCHEMA = json.loads((DOCS / "report.schema.json").read_text())
VALIDATOR = Draft202012Validator(SCHEMA)
X = (torch.linspace(-1, 1, 8).reshape(2, 4),)


class Net(nn.Module):
    def __init__(self, eps: float = 1e-5) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4, eps=eps)
        self.unused = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.fc(x))


class Port(cells.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.fc = cells.Dense(4, 3)

    def construct(self, x: Any) -> Any:
        return self.fc(x)


def passes(_: Path) -> Any:
    return parity.check(Net(), X, train=True)


def fails(_: Path) -> Any:
    report = parity.compare(Net(), Net(eps=1e-2), X)
    assert not report.ok
    return report


def skips(_: Path) -> Any:
    return parity.check(Net(), X, skip=["fc"], dtype=torch.float16)


def port(_: Path) -> Any:
    report = parity.compare(nn.Sequential(nn.Linear(4, 3)), Port(), X, cells={"fc": "0"})
    assert report.correspondence.cells
    assert report.correspondence.parameters
    return report


class Inlined(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(nn.functional.linear(x, self.fc.weight, self.fc.bias))


def inlines(_: Path) -> Any:
    report = parity.compare(Net(), Inlined(), X)
    assert report.structure
    return report


def trains(_: Path) -> Any:
    return parity.check_training(nn.Linear(4, 4), X, steps=2)


def trains_otherwise(_: Path) -> Any:
    def train_module(network: Any, batches: Any) -> Any:
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        for x in batches:
            optimizer.zero_grad()
            network(x).square().mean().backward()
            optimizer.step()
            yield None

    def train_cells(network: Any, batches: Any) -> Any:
        optimizer = cells.SGD(network.trainable_params(), learning_rate=0.2)
        step = value_and_grad(lambda x: network(x).square().mean(), None, optimizer.parameters)
        for x in batches:
            optimizer(step(x)[1])
            yield None

    report = parity.compare_training(nn.Linear(4, 3), cells.Dense(4, 3), train_module, train_cells, [X[0], X[0]])
    assert [cause.attribute for cause in report.causes] == ["lr"]
    return report


def onnx_files(folder: Path) -> Any:
    for name, eps in (("a.onnx", 1e-5), ("b.onnx", 1e-2)):
        to_onnx(from_torch(Net(eps), X), folder / name)
    return compare_onnx(str(folder / "a.onnx"), str(folder / "b.onnx"))


def checkpoint_is_right(folder: Path) -> Any:
    torch.save(Net().state_dict(), folder / "a.pt")
    return parity.check_checkpoint(folder / "a.pt", folder / "a.pt")


def checkpoint_is_wrong(folder: Path) -> Any:
    state = Net().state_dict()
    torch.save(state, folder / "a.pt")
    torch.save(state | {"fc.weight": state["unused.weight"], "unused.weight": state["fc.weight"]}, folder / "b.pt")
    report = parity.check_checkpoint(folder / "a.pt", folder / "b.pt", model=nn.Linear(4, 4))
    assert not report.ok
    return report


def not_compared(_: Path) -> Any:
    missing = failing(status=NOT_COMPARED, index=None, reason="no gradient", error=float("inf"), ratio=float("nan"))
    return report(
        CONVNET,
        cell("stem", "Conv2d", missing, passing(sizes="batch=1", index=None, truth=None)),
        without_comparisons("head", "Linear", NOT_REACHED),
        without_comparisons("blocks.0", "Block", SKIPPED),
    )


KINDS = [
    passes,
    fails,
    skips,
    port,
    inlines,
    trains,
    trains_otherwise,
    onnx_files,
    checkpoint_is_right,
    checkpoint_is_wrong,
    not_compared,
]


@pytest.mark.parametrize("made", KINDS, ids=lambda made: made.__name__)
@pytest.mark.every(6)
def test_reports_of_every_kind_are_valid(made: Callable[[Path], Any], tmp_path: Path) -> None:
    FORMATS["json"].write(made(tmp_path), str(tmp_path / "report.json"))
    written = json.loads((tmp_path / "report.json").read_text())
    VALIDATOR.validate(written)
    assert undescribed(written) == []


def undescribed(written: dict[str, Any]) -> list[str]:
    """Fields of a report that the schema doesn't describe."""

    def unknown(value: dict[str, Any], kind: str) -> list[str]:
        return [f"{kind}.{name}" for name in value if name not in SCHEMA["$defs"][kind]["properties"]]

    inside = {
        "cells": "cell",
        "pairs": "pair",
        "weights": "weight",
        "structure": "structure",
        "comparisons": "comparison",
    }
    if "before" in written:
        parts = [("checkpoint_file", [written["before"], written["after"]]), ("finding", written["findings"])]
        parts += [("checkpoint", [written]), ("tensor", list(written["tensors"].values()))]
        return [field for kind, values in parts for value in values for field in unknown(value, kind)]
    unknown_fields = unknown(written, "training" if "steps" in written else "report")
    unknown_fields += unknown(written.get("network_verdict", {}), "network_verdict")
    for field, kind in inside.items():
        for value in written.get(field, []):
            unknown_fields += unknown(value, kind)
            unknown_fields += [
                name for comparison in value.get("comparisons", []) for name in unknown(comparison, "comparison")
            ]
    return unknown_fields


@pytest.mark.parametrize(
    "plant",
    [
        lambda r: r.pop("ok"),
        lambda r: r.update(schema_version=2),
        lambda r: r.update(dtype="float8"),
        lambda r: r.update(ok=True),
        lambda r: r["cells"][1].update(status="good"),
        lambda r: r["cells"][1].pop("comparisons"),
        lambda r: r["cells"][1]["comparisons"][0].update(error=None),
        lambda r: r["cells"][1]["comparisons"][0].update(index=[-1]),
        lambda r: r["cells"][1]["comparisons"][0].update(status="pass", reason="not the same"),
        lambda r: r["cells"][1]["comparisons"][0].update(status="fail", reason=""),
    ],
)
def test_a_planted_fault_is_found(plant: Callable[[dict[str, Any]], Any]) -> None:
    written = report(CONVNET, cell("stem", "Conv2d", failing())).to_dict()
    VALIDATOR.validate(written)
    faulty = copy.deepcopy(written)
    plant(faulty)
    assert not VALIDATOR.is_valid(faulty)
    assert undescribed(faulty | {"news": 1}) == ["report.news"]


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def test_the_page_describes_the_fields_of_the_schema() -> None:
    page = (DOCS / "report-schema.md").read_text()
    described = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    fields = {name for kind in SCHEMA["$defs"].values() for name in kind.get("properties", {})}
    assert fields == described
    assert "report.schema.json" in page


@pytest.mark.parametrize(
    "plant",
    [
        lambda r: r.update(ok=True),
        lambda r: r["findings"][0].update(rank="bad"),
        lambda r: r["findings"][0].pop("advice"),
        lambda r: r["tensors"]["fc.weight"].update(shape=[-1]),
        lambda r: r["before"].pop("format"),
    ],
)
def test_a_planted_fault_in_a_checkpoint_is_found(plant: Callable[[dict[str, Any]], Any], tmp_path: Path) -> None:
    written = checkpoint_is_wrong(tmp_path).to_dict()
    VALIDATOR.validate(written)
    plant(written)
    assert not VALIDATOR.is_valid(written)
