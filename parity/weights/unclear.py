"""The error for ambiguous Parameters, with suggestions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...runtime.errors import UsageError
from .pair_matcher import PairMatcher, Shape


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
