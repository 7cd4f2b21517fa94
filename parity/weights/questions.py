"""The error for ambiguous names, with proposed lines for a map file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ...runtime.errors import UsageError
from ..correspondence.name_patterns import match_pattern
from .layouts import CheckpointLayout
from .map_file import WeightMap
from .naming import Question, Shapes


def require_answers(
    questions: Iterable[Question], shapes: Shapes, weight_map: WeightMap, other: str, *, back: bool
) -> None:
    """Raise `UsageError` if there are questions about the parameters in torch, or in `other`, with proposals."""
    proposals = [replace(q, other=weight_map.replace_prefix(q.other, back=back)) for q in questions]
    if not proposals:
        return
    lines: list[str] = []
    for (name, other_name), alike in _group(proposals, shapes).items():
        first, several = alike[0], len(alike) > 1
        lines.append(f"# {first.name or '(root)'} {list(first.shape)}{f', and {len(alike) - 1} like it' * several}")
        lines += [f"#   {_pattern(choice) if several else choice}" for choice in first.choices]
        lines.append(_line(other_name, name, first.layout) if back else _line(name, other_name, first.layout))
    where = (
        f"put them first in {weight_map.where}"
        if weight_map.entries or weight_map.prefixes
        else "give them in a file: --map FILE"
    )
    raise UsageError(
        f"names and shapes don't determine what {len(proposals)} of {len(shapes)} parameters are "
        f"in {'torch' if back else other}.\nCorrect these lines, which are guesses, and {where}\n\n" + "\n".join(lines)
    )


def is_module(question: Question) -> bool:
    """Whether the whole module is in question."""
    return question.name == "" or question.name.endswith(".")


def _group(questions: list[Question], shapes: Shapes) -> Mapping[tuple[str, str], list[Question]]:
    """Group questions by patterns of both names: numbers become `*` if the pattern matches no other names."""
    by_patterns: dict[tuple[str, str], list[Question]] = {}
    for question in questions:
        by_patterns.setdefault((_pattern(question.name), _pattern(question.other)), []).append(question)
    result: dict[tuple[str, str], list[Question]] = {}
    for (name, other), alike in by_patterns.items():
        names = {question.name for question in alike}
        matches = {n for n in shapes if match_pattern(name, n) is not None} if not is_module(alike[0]) else names
        forms = {(question.layout, tuple(map(_pattern, question.choices))) for question in alike}
        same = len(forms) == 1 and name.count("*") == other.count("*")
        if len(alike) > 1 and matches == names and same:
            result[name, other] = alike
        else:
            result |= {(question.name, question.other): [question] for question in alike}
    return result


def _pattern(name: str) -> str:
    return re.sub(r"(?<![^.\"])\d+(?=\.)", "*", name)


def _line(torch: str, cells: str, layout: CheckpointLayout) -> str:
    """Format a line of a map file."""
    if not str(layout):
        return f"{_quote(torch)} = {_quote(cells)}"
    to = "" if torch == cells else f"to = {_quote(cells)}, "
    return f"{_quote(torch)} = {{ {to}{layout} }}"


def _quote(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)
