"""The errors for names and Parameters that may be several things, with lines of a map or `weights=` as proposals."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ...runtime.errors import UsageError
from ..correspondence.name_patterns import match_pattern
from .layouts import CheckpointLayout
from .map_file import WeightMap
from .naming import Question, Shapes
from .pair_matcher import PairMatcher, Shape


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


def require_unambiguous(matchers: Sequence[PairMatcher]) -> None:
    """Raise `UsageError` if both sides of a pair have unmatched parameters."""
    lines: list[str] = []
    suggestions: list[str] = []
    for matcher in matchers:
        module_shapes = {name: tuple(matcher.arrays[matcher.alias[name]].shape) for name in matcher.parameters}
        cell_shapes = {path: tuple(p.shape) for path, p in matcher.cell.items() if p.requires_grad}
        if not module_shapes or not cell_shapes:
            continue
        lines.append(f"  {matcher.pair.module or '(root)'}: {matcher.pair.module_class}, and {matcher.pair.cell_class}")
        lines.append(f"    of the module: {_list(module_shapes)}")
        lines.append(f"    of the Cell:   {_list(cell_shapes)}")
        suggestions += [*_parts(module_shapes, cell_shapes), *_suggestions(module_shapes, cell_shapes)]
    if lines:
        example = suggestions or ["'path of the Parameter': 'name in the module'"]
        raise UsageError(
            "it isn't clear which Parameters of the Cell correspond to which parameters of the module:\n"
            + "\n".join(lines)
            + "\nGive the correspondence, for example:\n  weights={\n"
            + "".join(f"    {entry},\n" for entry in example)
            + "  }"
        )


def _list(shapes: Mapping[str, Shape]) -> str:
    return ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())


def _parts(module_shapes: dict[str, Shape], cell_shapes: dict[str, Shape]) -> Iterator[str]:
    """Suggest, and remove, the Cell's parameters that together have the rows of one of the module's (q, k and v)."""
    for name, shape in list(module_shapes.items()):
        parts = [path for path, part in cell_shapes.items() if shape and part and _is_part(part, shape)]
        # only those of one kind: `q.bias`, `k.bias` and `v.bias`
        parts = [path for path in parts if cell_shapes[path] == cell_shapes[parts[0]]]
        if len(parts) > 1 and len(parts) * cell_shapes[parts[0]][0] == shape[0]:
            rows = cell_shapes[parts[0]][0]
            for i, path in enumerate(parts):
                yield f"{path!r}: ({name!r}, lambda array: array[{i * rows}:{(i + 1) * rows}])"
                del cell_shapes[path]
            del module_shapes[name]


def _is_part(part: Shape, whole: Shape) -> bool:
    return part[1:] == whole[1:] and part[0] < whole[0]


def _suggestions(module_shapes: dict[str, Shape], cell_shapes: Mapping[str, Shape]) -> Iterator[str]:
    """Suggest the first of the module's parameters with the same shape, or the transposed shape."""
    for path, shape in cell_shapes.items():
        same = next((name for name, other in module_shapes.items() if other == shape), None)
        transposed = next(
            (name for name, other in module_shapes.items() if len(shape) == 2 and other == shape[::-1]), None
        )
        if same is not None:
            yield f"{path!r}: {same!r}"
            del module_shapes[same]
        elif transposed is not None:
            yield f"{path!r}: ({transposed!r}, 'transpose')"
            del module_shapes[transposed]
