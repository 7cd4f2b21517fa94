"""A network compared with what was locked: planted changes are found in their Cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cellbridge.parity.jobs.locks.check import check_snapshot
from cellbridge.parity.jobs.locks.contents import SKETCH_SIZE, Snapshot
from cellbridge.parity.jobs.locks.snapshot import bits, sketch, take_snapshot
from cellbridge.parity.options import Options
from cellbridge.parity.report.report import Report
from cellbridge.runtime.errors import UsageError
from tests.parity.checking.recordings.networks import FAULTS, Network, loss, make

VERSIONS = {"torch": "2.0.0"}


def snapshot(fault: Any = None, x: torch.Tensor | None = None, **options: Any) -> Snapshot:
    module, given_x = make()
    if fault is not None:
        fault(module)
    return take_snapshot(module, (given_x if x is None else x,), {}, Options(loss=loss, model="network", **options))


@pytest.fixture(scope="module")
def locked() -> Snapshot:
    return snapshot()


def checked(locked: Snapshot, now: Snapshot, versions: dict[str, str] = VERSIONS) -> Report:
    return check_snapshot(locked, now, VERSIONS, versions, {})


def test_the_same_network_computes_the_same_bits(locked: Snapshot) -> None:
    report = checked(locked, snapshot())
    assert report.ok, str(report)
    assert "every Cell computes the same bits as when it was locked" in report.notes


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.every(6)
def test_a_fault_is_placed_in_its_cell(locked: Snapshot, name: str) -> None:
    fault, path = FAULTS[name]
    report = checked(locked, snapshot(fault))
    assert report.failing == [path], str(report)
    assert all(c.feeding in ("equal inputs", "isolated") for c in report.cells[path].failures if c.of_cell_alone)


def test_what_changed_in_a_cell_explains_it(locked: Snapshot) -> None:
    report = checked(locked, snapshot(FAULTS["eps of a norm"][0]))
    assert report.cells["blocks.1.norm"].explanations == ["its eps was 1e-05, and is 0.001"]


def test_another_class_explains_a_cell(locked: Snapshot) -> None:
    def change(module: Network) -> None:
        module.blocks[0].act = torch.nn.ReLU()  # type: ignore[index, union-attr]

    report = checked(locked, snapshot(change))
    assert report.failing == ["blocks.0.act"]
    assert report.cells["blocks.0.act"].explanations[0] == "its class was GELU, and is ReLU"


def test_a_library_that_changed_is_named_where_the_cell_itself_did_not(locked: Snapshot) -> None:
    report = checked(locked, snapshot(FAULTS["the first layer"][0]), {"torch": "2.1.0"})
    (explanation,) = report.cells["blocks.0.norm"].explanations
    assert "what it calls has changed (torch 2.0.0 → 2.1.0)" in explanation
    assert "since it was locked: torch 2.0.0 → 2.1.0" in report.notes


def test_a_change_within_rounding_passes_and_is_said(locked: Snapshot) -> None:
    def change(module: Network) -> None:
        head = module.head
        head.forward = lambda x: (x.double() @ head.weight.double().mT + head.bias.double()).to(x.dtype)  # type: ignore[method-assign]

    report = checked(locked, snapshot(change))
    assert report.ok, str(report)
    assert "Cells compute other bits than when they were locked, within rounding: head" in " ".join(report.notes)


def test_one_changed_element_of_many_is_found() -> None:
    def network(changed: bool) -> Snapshot:
        def add(y: torch.Tensor) -> torch.Tensor:
            return y + torch.zeros_like(y).index_fill(1, torch.tensor([77]), 1e-3 if changed else 0.0)

        module = torch.nn.Sequential(torch.nn.Linear(4, 1000), torch.nn.Tanh())
        torch.nn.init.normal_(module[0].weight, generator=torch.Generator().manual_seed(0))
        torch.nn.init.zeros_(module[0].bias)
        module[0].register_forward_hook(lambda _, args, out: add(out))
        return take_snapshot(module, (torch.ones(3, 4),), {}, Options())

    assert checked(network(False), network(False)).ok
    assert checked(network(False), network(True)).failing == ["0"]


def test_weights_that_differ_in_their_last_digits_are_judged_by_rounding(locked: Snapshot) -> None:
    """As on another processor, where the same seed gives other last digits."""

    def nudge(module: Network) -> None:
        for parameter in module.parameters():
            parameter.data += torch.finfo(torch.float32).eps * parameter.data

    report = checked(locked, snapshot(nudge))
    assert report.ok, str(report)
    assert "rounding alone was judged" in " ".join(report.notes)

    def also_wrong(module: Network) -> None:
        nudge(module)
        FAULTS["eps of a norm"][0](module)

    assert checked(locked, snapshot(also_wrong)).failing == ["blocks.1.norm"]


def test_inputs_that_differ_in_their_last_digits_are_the_same(locked: Snapshot) -> None:
    _, x = make()
    report = checked(locked, snapshot(x=torch.nextafter(x, torch.tensor(9.0))))
    assert report.ok, str(report)
    assert "(x)" in " ".join(report.notes)


def test_other_inputs_are_refused(locked: Snapshot) -> None:
    with pytest.raises(UsageError, match="the inputs aren't those that were locked: x"):
        checked(locked, snapshot(x=torch.ones(2, 7, 16)))


def test_another_shape_is_said_in_shapes_of_the_tensor(locked: Snapshot) -> None:
    def change(module: Network) -> None:
        module.head = torch.nn.Linear(16, 6)

    report = checked(locked, snapshot(change))
    reasons = {c.reason for c in report.cells["head"].failures}
    assert "shape [2, 7, 6] now, [2, 7, 5] when it was locked" in reasons


@given(st.integers(0, 3000), st.integers(0, 2**31), st.floats(1e-6, 1e3))
def test_any_changed_element_changes_the_projections(size: int, place: int, amount: float) -> None:
    array = np.random.default_rng(0).normal(size=size)
    numbers = sketch(array)
    assert numbers.shape == (SKETCH_SIZE,)
    if size:
        array[place % size] += amount
        change = np.abs(sketch(array)[-2:] - numbers[-2:])
        np.testing.assert_allclose(change, amount / size**0.5, rtol=1e-5)


def test_integers_have_a_checksum() -> None:
    array = np.arange(100)
    changed = array.copy()
    changed[50] = -1
    assert not np.array_equal(sketch(array), sketch(changed))
    np.testing.assert_array_equal(sketch(array), sketch(array.astype(np.int32)))
    assert bits(array) != bits(array.astype(np.int32))


def test_elements_that_are_not_finite_are_left_out_of_the_sums() -> None:
    assert np.isfinite(sketch(np.array([1.0, np.inf, np.nan, 2.0] * 100))[-2:]).all()
