"""Modes and devices: what can be set, and what is refused with words that help."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import cellbridge.runtime as ms
from cellbridge.runtime import context


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = dict(context._settings)
    yield
    context._settings.clear()
    context._settings.update(before)


def test_cells_run_as_python_does_unless_something_else_is_set() -> None:
    assert ms.get_context("mode") == ms.PYNATIVE_MODE == context.PYNATIVE_MODE == 1
    assert ms.get_context("device_target") == "CPU"
    ms.set_context(mode=ms.PYNATIVE_MODE, device_target="CPU", device_id=1)
    assert ms.get_context("device_id") == 1
    ms.set_device("CPU")
    assert ms.get_context("device_id") == 0
    ms.set_context(mode=ms.GRAPH_MODE)
    assert ms.get_context("mode") == ms.GRAPH_MODE == 0


def test_settings_without_effect_are_kept() -> None:
    assert ms.get_context("deterministic") is None
    ms.set_context(deterministic="ON", save_graphs=False, pynative_synchronize=True)
    assert ms.get_context("deterministic") == "ON"


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"mode": 2}, ValueError, ["mode", "GRAPH_MODE", "PYNATIVE_MODE", "2"]),
        ({"mode": "graph"}, TypeError, ["mode", "int", "'graph'"]),
        ({"device_target": "cpu"}, ValueError, ["device_target", "CPU", "'cpu'"]),
        ({"device_id": -1}, ValueError, ["device_id", ">= 0", "-1"]),
        ({"device_id": "0"}, TypeError, ["device_id", "int", "'0'"]),
        ({"deterministic": 1}, TypeError, ["deterministic", "str", "1"]),
    ],
)
def test_refusals_say_what_to_do(settings: dict[str, Any], error: type[Exception], words: list[str]) -> None:
    before = dict(context._settings)
    with pytest.raises(error) as raised:
        ms.set_context(device_id=3, **settings) if "device_id" not in settings else ms.set_context(**settings)
    assert [word for word in words if word not in str(raised.value)] == []
    assert context._settings == before  # nothing is set if something is refused


def test_unknown_names() -> None:
    with pytest.raises(ValueError, match="colour"):
        ms.get_context("colour")


@pytest.mark.parametrize("device", ["Ascend", "GPU"])
def test_a_device_that_is_not_there(device: str) -> None:
    """Scripts begin with it: a warning. Who asks for the device itself is told that there is none."""
    with pytest.warns(UserWarning, match=f"the device '{device}' is not available: Cells run on 'CPU'"):
        ms.set_context(mode=ms.GRAPH_MODE, device_target=device)
    assert ms.get_context("device_target") == "CPU"
    assert ms.get_context("mode") == ms.GRAPH_MODE
    with pytest.raises(RuntimeError, match=f"'{device}' is not available"):
        ms.set_device(device)


def test_settings_that_are_not_known_are_warned_of() -> None:
    with pytest.warns(UserWarning, match="'memory_optimize_level', 'ascend_config' has no effect here"):
        ms.set_context(memory_optimize_level="O0", ascend_config={}, device_id=2)
    assert ms.get_context("device_id") == 2
