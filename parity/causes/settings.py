"""Causes in the words of the attributes that a person sets on a module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch

from ...runtime.visible import visible_name
from ..results.cause import Cause
from .descriptions import spelling

OF_COMPUTATION = frozenset({"attribute", "structure", "state"})
"""Kinds of causes that a module's attribute may stand behind."""


def in_words_of_settings(
    causes: list[Cause],
    reference: Mapping[str, Any],
    candidate: Mapping[str, Any],
    explains: Callable[[str], bool],
) -> list[Cause]:
    """Return one cause in place of those that follow from the only attribute in which two modules differ.

    Several constants and nodes of a program change with one attribute of a module, such as `momentum`.

    Args:
        causes: the causes of a Cell.
        reference: attributes of the reference's module, with its "class".
        candidate: attributes of the candidate's.
        explains: whether the reference's module computes what the candidate does if this attribute alone is changed.
    """
    different = [name for name in reference if name in candidate and not _same(reference[name], candidate[name])]
    explained = [cause for cause in causes if cause.kind in OF_COMPUTATION]
    if len(different) != 1 or not explained or (len(explained) == 1 and explained[0].attribute):
        return causes
    name, first = different[0], explained[0]
    if name not in ("class", "training") and not explains(name):
        return causes
    reference_text, candidate_text = (visible_name(str(side[name])) for side in (reference, candidate))
    if name == "class":
        if len(explained) > 1:
            return causes
        classes = f"{candidate_text} in the candidate, {reference_text} in the reference"
        summary = f"the Cell is of class {classes}: {first.summary}"
        # a class of the network's own, on either side, isn't a slip for the other one
        are_layers = all(side["class"] in vars(torch.nn) for side in (reference, candidate))
        named = replace(first, summary=summary, fix=f"use {reference_text}" if are_layers else first.fix)
    else:
        summary = f"{visible_name(name)} is {candidate_text} in the candidate, {reference_text} in the reference"
        fix = f"{visible_name(reference['class'])}(..., {visible_name(name)}={reference_text})"
        if name == "training":
            candidate_text, reference_text = ("train" if side[name] else "eval" for side in (candidate, reference))
            summary = f"it runs in {candidate_text} mode in the candidate, in {reference_text} mode in the reference"
            fix = f"call {reference_text}() of this module of the candidate"
        named = replace(
            first,
            kind="attribute",
            summary=summary,
            fix=fix,
            attribute=name,
            reference_value=reference[name],
            candidate_value=candidate[name],
        )
    rest = [cause for cause in causes if cause not in explained]
    return [replace(cause, together=1 + len(rest)) for cause in (named, *rest)]


def with_fixes(causes: list[Cause], reference: Mapping[str, Any]) -> list[Cause]:
    """Return causes whose fixes name an attribute of the module if it has one of that name, else one of an operation.

    Args:
        causes: the causes of a Cell.
        reference: attributes of the reference's module, with its "class"; empty if they aren't known.
    """
    return [_with_fix(c, reference) if c.kind == "attribute" and c.attribute and reference else c for c in causes]


def _with_fix(cause: Cause, reference: Mapping[str, Any]) -> Cause:
    name = visible_name(cause.attribute)
    if cause.attribute in reference and not _is_another_switch(reference[cause.attribute], cause.reference_value):
        value = spelling(reference[cause.attribute])
        return replace(cause, fix=f"{visible_name(reference['class'])}(..., {name}={value})")
    # an operator of several settings has its fix
    return (
        cause if cause.fix.startswith("use ") else replace(cause, fix=f"use {name}={spelling(cause.reference_value)}")
    )


def _is_another_switch(of_module: Any, of_operation: Any) -> bool:
    """Whether a module's attribute is on where an operation's of that name is off, or the other way round."""
    return isinstance(of_module, bool) and isinstance(of_operation, bool) and of_module != of_operation


def _same(a: Any, b: Any) -> bool:
    return bool(a == b) or (a != a and b != b)
