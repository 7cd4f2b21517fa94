"""The error for what names and shapes don't tell, with the lines of a map file that would."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ...runtime.errors import UsageError
from .layouts import Layout
from .map_file import WeightMap
from .naming import Question, Shapes
from .rules import matched


def ask(questions: Iterable[Question], shapes: Shapes, given: WeightMap, *, back: bool) -> None:
    """Raise `UsageError` if there are questions, with a proposal for each."""
    asked = [replace(q, other=given.prefixed(q.other, back=back)) for q in questions]
    if not asked:
        return
    lines: list[str] = []
    for (name, other), alike in _grouped(asked, shapes).items():
        first, several = alike[0], len(alike) > 1
        lines.append(f"# {first.name or '(root)'} {list(first.shape)}{f', and {len(alike) - 1} like it' * several}")
        lines += [f"#   {_pattern(choice) if several else choice}" for choice in first.choices]
        lines.append(_line(other, name, first.layout) if back else _line(name, other, first.layout))
    where = f"put them first in {given.where}" if given.entries or given.prefixes else "give them in a file: --map FILE"
    raise UsageError(
        f"names and shapes don't tell what {len(asked)} of {len(shapes)} parameters are "
        f"{'in torch' if back else 'in Cells'}.\nCorrect these lines, which are guesses, and {where}\n\n"
        + "\n".join(lines)
    )


def is_module(question: Question) -> bool:
    """Whether all of a module is in question."""
    return question.name == "" or question.name.endswith(".")


def _grouped(questions: list[Question], shapes: Shapes) -> Mapping[tuple[str, str], list[Question]]:
    """Questions by the patterns of both names: numbers in them become `*` where that takes in nothing else."""
    found: dict[tuple[str, str], list[Question]] = {}
    for question in questions:
        found.setdefault((_pattern(question.name), _pattern(question.other)), []).append(question)
    apart: dict[tuple[str, str], list[Question]] = {}
    for (name, other), alike in found.items():
        names = {question.name for question in alike}
        taken = {n for n in shapes if matched(name, n) is not None} if not is_module(alike[0]) else names
        forms = {(question.layout, tuple(map(_pattern, question.choices))) for question in alike}
        same = len(forms) == 1 and name.count("*") == other.count("*")
        if len(alike) > 1 and taken == names and same:
            apart[name, other] = alike
        else:
            apart |= {(question.name, question.other): [question] for question in alike}
    return apart


def _pattern(name: str) -> str:
    return re.sub(r"(?<![^.\"])\d+(?=\.)", "*", name)


def _line(torch: str, cells: str, layout: Layout) -> str:
    """One line of a map file."""
    if not str(layout):
        return f"{_quoted(torch)} = {_quoted(cells)}"
    to = "" if torch == cells else f"to = {_quoted(cells)}, "
    return f"{_quoted(torch)} = {{ {to}{layout} }}"


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)
