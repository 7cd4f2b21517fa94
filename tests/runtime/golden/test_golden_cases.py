"""Every golden case, and that the comparison would notice a wrong one."""

from __future__ import annotations

import builtins
import copy
import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellbridge.runtime as ms
from cellbridge.runtime import Tensor, TracingError
from tests.runtime.golden.cases import RUNNERS, Case, differences, is_tensor, load
from tests.runtime.golden.errors import SITUATIONS

for _path in sorted(Path(__file__).parent.glob("*.py")):  # they declare the runners
    if not _path.stem.startswith("test_"):
        importlib.import_module(f"tests.runtime.golden.{_path.stem}")

CASES, REST = load()
VALUES = [case for case in CASES if case.kind != "error"]
ERRORS = [case for case in CASES if case.kind == "error"]


@pytest.mark.parametrize("case", VALUES, ids=str)
def test_golden_case(case: Case) -> None:
    differences = case.differences(case.run())
    assert not differences, "\n".join(differences)


HOOKS = "hooks work in eager mode only"
NUMPY = "NumPy takes part"
COUNTS = "`construct` counts its calls in an attribute"
REFUSED_IN_GRAPH_MODE = {
    "bprop_custom": NUMPY,
    "bprop_custom_debug": NUMPY,
    "construct_count": COUNTS,
    "grad_via_numpy": NUMPY,
    "hook_backward_modifies": HOOKS,
    "hook_backward_pre_modifies": HOOKS,
    "hook_forward_modifies": HOOKS,
    "hook_forward_only_run": HOOKS,
    "hook_pre_modifies": HOOKS,
    "hook_removed": HOOKS,
    "hookbackward_record": HOOKS,
    "hookbackward_replace": HOOKS,
    "hooks_order_nested": HOOKS,
    "hooks_order_registration": HOOKS,
    "hooks_two_io": HOOKS,
    "sampler_bprop": NUMPY,
    "sampler_no_bprop": NUMPY,
    "to_float_tree_0": HOOKS,
    "to_float_tree_1": HOOKS,
    "to_float_tree_2": HOOKS,
    "to_float_tree_3": HOOKS,
}


@pytest.mark.parametrize("case", VALUES, ids=str)
@pytest.mark.every(6)
def test_golden_case_in_graph_mode(case: Case) -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    try:
        if case.id in REFUSED_IN_GRAPH_MODE:
            with pytest.raises(TracingError):
                case.run()
            return
        differences = case.differences(case.run())
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)
    assert not differences, "\n".join(differences)


@pytest.mark.parametrize("case", ERRORS, ids=str)
def test_golden_error(case: Case) -> None:
    expected = case.expected
    with pytest.raises(getattr(builtins, expected["raises"])) as raised:
        SITUATIONS[case.params["action"]]()
    message = str(raised.value).lower()
    missing = [word for word in expected["message_contains"] if word.lower() not in message]
    assert not missing, f"{message!r} lacks {missing}"


def test_every_case_has_its_runner() -> None:
    kinds = {case.kind for case in VALUES}
    assert kinds == RUNNERS.keys()
    assert kinds | {"error"} == set(REST["meta"]["kinds"])
    assert {case.params["action"] for case in ERRORS} == SITUATIONS.keys()
    assert len(CASES) == REST["count"]


def _falsified(item: Any) -> list[Any]:
    """Copies of an expected result, each with one value changed."""
    if is_tensor(item):
        changed = copy.deepcopy(item)
        data = changed["data"]
        if not data:
            return []
        data[-1] = 12345.5 if item["dtype"].startswith("float") else not data[-1] if item["dtype"] == "bool" else 77
        reshaped = copy.deepcopy(item)
        reshaped["shape"] = [*item["shape"], 1]
        return [changed, reshaped]
    if isinstance(item, dict):
        return [item | {key: wrong} for key, value in item.items() for wrong in _falsified(value)]
    if isinstance(item, list):
        variants = [[*item[:i], wrong, *item[i + 1 :]] for i, value in enumerate(item) for wrong in _falsified(value)]
        return [*variants, [*item, 0]]
    if isinstance(item, bool):
        return [not item]
    return [item + 1] if isinstance(item, (int, float)) else [f"{item}x"] if isinstance(item, str) else []


@pytest.mark.every(2)
@pytest.mark.parametrize("kind", sorted({case.kind for case in VALUES}))
def test_a_wrong_expectation_is_noticed(kind: str) -> None:
    case = next(case for case in VALUES if case.kind == kind)
    got = case.run()
    wrong = [expected for expected in _falsified(case.expected) if expected != case.expected]
    assert wrong
    for expected in wrong:
        assert differences(got, expected, case.rtol, case.atol, case.id), expected


def test_comparison_is_exact_where_it_must_be() -> None:
    whole = {"shape": [1], "dtype": "int32", "data": [1]}
    assert not differences(Tensor([1], "int32"), whole, 1.0, 1.0, "")
    assert differences(Tensor([2], "int32"), whole, 1.0, 1.0, "")
    assert differences(Tensor([1], "int64"), whole, 1.0, 1.0, "")
    assert differences(True, 1, 1.0, 1.0, "")
    assert differences({"a": 1, "b": 2}, {"a": 1}, 0, 0, "")
    infinite = {"shape": [2], "dtype": "float32", "data": ["inf", "nan"]}
    assert not differences(np.array([np.inf, np.nan], np.float32), infinite, 0, 0, "")
    assert differences(np.array([1.0, np.nan], np.float32), infinite, 1.0, 1.0, "")
