"""Keywords of the public functions."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from torch import nn

from cellbridge import parity
from cellbridge.parity.assertions import CompareKeywords, PortTrainingKeywords, TrainingKeywords
from cellbridge.parity.dtypes import dtype_name
from cellbridge.parity.jobs.training.training_config import TrainingConfig, TrainingConfigKeywords
from cellbridge.parity.options import OptionKeywords, Options
from cellbridge.runtime.errors import UsageError
from cellbridge.runtime.train_step.arguments import StepKeywords, training_step

X = (torch.ones(2, 4),)
NET = nn.Linear(4, 4)


@pytest.mark.parametrize(
    "dtype", [torch.float16, np.float16, np.dtype("float16"), "float16", "Float16", "torch.float16"]
)
def test_a_dtype_in_every_form(dtype: Any) -> None:
    assert dtype_name(dtype) == Options(dtype=dtype).dtype == "float16"


def test_bfloat16_in_every_form() -> None:
    assert {dtype_name(dtype) for dtype in (torch.bfloat16, ml_dtypes.bfloat16, "bfloat16")} == {"bfloat16"}


@pytest.mark.parametrize("dtype", [torch.int32, "half", None, 16, [], torch])
def test_what_is_no_working_dtype_is_refused(dtype: Any) -> None:
    with pytest.raises(UsageError, match="dtype must be one of float32, float64, float16, bfloat16, given"):
        Options(dtype=dtype)


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf")])
def test_a_tolerance_is_a_finite_number_of_at_least_0(wrong: float) -> None:
    with pytest.raises(UsageError, match="atol must be a number of at least 0"):
        Options(atol=wrong)


@pytest.mark.parametrize("name", ["adamw", "AdamW", "ADAMW"])
def test_optimizers_as_torch_writes_them(name: str) -> None:
    assert TrainingConfig(optimizer=name) == TrainingConfig(optimizer="adamw")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: parity.check(NET, X, grad=False), r"check\(\) has no option grad=; did you mean grads="),
        (lambda: parity.check(NET, X, roundtrip=True), r"check\(\) .* did you mean round_trip="),
        (lambda: parity.compare(NET, NET, X, gradients=False), r"compare\(\) has no option gradients=; "),
        (lambda: parity.assert_parity(NET, NET, X, d_type="float16"), r"compare\(\) .* did you mean dtype="),
        (lambda: parity.check_training(NET, X, optimiser="sgd"), r"check_training\(\) .* did you mean optimizer="),
        (lambda: parity.assert_parity(NET, NET, X, weigths={}), r"compare\(\) .* did you mean weights="),
        (lambda: parity.assert_training_parity(NET, X, step=2), r"check_training\(\) .* did you mean steps="),
        (
            lambda: parity.assert_training_parity(NET, NET, None, None, [], weight={}),
            r"compare_training\(\) .* did you mean weights=",
        ),
        (lambda: parity.check(NET, X, zzz=1), r"check\(\) has no option zzz=; there are .*atol, .*train"),
    ],
)
def test_an_unknown_keyword_is_named_with_the_one_that_may_be_meant(call: Any, message: str) -> None:
    for kind in (UsageError, TypeError):
        with pytest.raises(kind, match=message) as raised:
            call()
        assert "__init__" not in str(raised.value)


@pytest.mark.parametrize(("keywords", "options"), [(OptionKeywords, Options), (TrainingConfigKeywords, TrainingConfig)])
def test_the_keywords_that_editors_complete_are_the_fields(keywords: Any, options: Any) -> None:
    assert list(keywords.__annotations__) == [field.name for field in dataclasses.fields(options)]


@pytest.mark.parametrize(
    ("keywords", "function", "fields"),
    [
        (CompareKeywords, parity.compare, OptionKeywords),
        (TrainingKeywords, parity.check_training, TrainingConfigKeywords),
        (PortTrainingKeywords, parity.compare_training, None),
        (StepKeywords, training_step, None),
    ],
)
def test_keywords_that_are_passed_on_are_those_of_what_is_called(keywords: Any, function: Any, fields: Any) -> None:
    keyword_names = {p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY}
    assert keywords.__optional_keys__ == keyword_names | set(fields.__annotations__ if fields else ())


def test_one_side_can_be_chosen() -> None:
    report = parity.check(NET, X, sides=["onnxruntime"])
    assert report.ok
    assert report.sides == ["onnxruntime"]
    with pytest.raises(UsageError, match="there is no side 'onnx' to judge: there are interpreter, onnxruntime"):
        parity.check(NET, X, sides=["onnx"])
