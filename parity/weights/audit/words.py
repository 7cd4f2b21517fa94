"""How a tensor is made of others, in words."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..assembly import Assembly, Grid
from ..computed import Computed
from .derivation import Derivation, Origin
from .findings.finding import counted
from .names import kind_of


def sources_in_words(assembly: Assembly) -> str:
    """Return the tensors that a tensor is made of, with `*` for the numbers of layers: `h.*.{q,k,v}.weight`."""
    names = dict.fromkeys(kind_of(name) for name in assembly.all_names)
    parts = [name.split(".") for name in names]
    different = [n for n, of_all in enumerate(zip(*parts, strict=False)) if len(set(of_all)) > 1]
    if len(names) > 1 and len({*map(len, parts)}) == 1 and len(different) == 1:
        (place,) = different
        choices = ",".join(of_name[place] for of_name in parts)
        return ".".join([*parts[0][:place], f"{{{choices}}}", *parts[0][place + 1 :]])
    return " + ".join(names)


def way_in_words(derivation: Derivation, name: str) -> str:
    """Return how a tensor is made of its sources, "as it is" if its values aren't changed at all."""
    origin = derivation.origins[name]
    tensor = derivation.after[name].tensor
    parts = [*_computation(origin.join.assembly), *_layout(derivation, name, origin)]
    parts += _rounding(derivation, name, origin)
    if not parts:
        shapes = {derivation.before[source].tensor.shape for source in origin.sources}
        return "the same" if shapes == {tensor.shape} else f"in the shape {list(tensor.shape)}"
    return ", ".join(parts)


def _computation(assembly: Assembly) -> list[str]:
    words = []
    for source in assembly.sources:
        if isinstance(source, Computed):
            numbers = dict(source.numbers)
            match source.form:
                case "affine" if numbers.get("times") == -1.0:
                    words.append("negated")
                case "affine" if "times" in numbers:
                    words.append(f"times {factor_in_words(numbers['times'])}")
                case "affine":
                    words.append(f"plus {numbers['plus']:g}")
                case "batch_norm":
                    words.append(f"a batch norm folded in (eps {numbers['eps']:g})")
                case "batch_norm_bias":
                    words.append("the bias of a folded batch norm")
                case "weight_norm":
                    words.append("a weight norm merged")
                case "mixture":
                    words.append(f"a mixture ({', '.join(f'{weight:g}' for weight in _listed(numbers['weights']))})")
                case "moved_bias":
                    words.append("the bias behind a folded norm")
                case "lora":
                    words.append(f"an adapter merged (times {factor_in_words(numbers['times'])})")
                case "scaled" | "scaled_columns":
                    words.append(f"{'rows' if source.form == 'scaled' else 'columns'} times the second")
                case other:
                    words.append(other)
    return list(dict.fromkeys(words))


def _listed(numbers: float | tuple[float, ...]) -> tuple[float, ...]:
    return numbers if isinstance(numbers, tuple) else (numbers,)


def factor_in_words(factor: float | tuple[float, ...]) -> str:
    """Return a factor, with what it is the root or the inverse of."""
    assert isinstance(factor, float), "a factor is a number"
    size = abs(factor)
    if size and not math.isclose(size, round(size)):
        for before, whole, behind in (("1/sqrt(", 1 / size**2, ")"), ("sqrt(", size**2, ")"), ("1/", 1 / size, "")):
            if round(whole) > 1 and math.isclose(whole, round(whole), rel_tol=1e-9):
                return f"{factor:.6g} = {'-' * (factor < 0)}{before}{round(whole)}{behind}"
    return f"{factor:.6g}"


def _layout(derivation: Derivation, name: str, origin: Origin) -> list[str]:
    assembly, join = origin.join.assembly, origin.join
    words = []
    if len(assembly.sources) > 1:
        shape = derivation.after[name].tensor.shape
        of_source = derivation.before[assembly.all_names[0]].tensor.shape
        is_stack = len(shape) == len(of_source) + 1
        axis = assembly.axes[0]
        words.append(f"{'stacked' if is_stack else 'joined'}{f' along axis {axis}' if axis else ''}")
    if _is_transposed(assembly):
        words.append("transposed")
    if assembly.rows is not None:
        words.append(_order_in_words("rows", assembly.rows, len(join.padding)))
    if assembly.columns is not None:
        words.append(_order_in_words("columns", assembly.columns, 0))
    if padding := len(join.padding) or assembly.padding:
        words.append(f"{counted(padding, 'row')} of zeros added")
    if join.unknown:
        words.append(f"{counted(len(join.unknown), 'row')} from nowhere")
    return [word for word in words if word]


def _is_transposed(assembly: Assembly) -> bool:
    """Whether the axes that remain are read in another order than they are in."""
    axes = assembly.from_axes
    return axes[: len(assembly.axes)] != assembly.axes or list(axes) != sorted(axes)


def _order_in_words(what: str, grids: Sequence[Grid], padding: int) -> str:
    if padding:
        return ""
    if all(len(grid.sizes) == 1 and grid.strides == (1,) for grid in grids) and len(grids) <= 2:
        ranges = " and ".join(f"{grid.start} to {grid.start + grid.sizes[0] - 1}" for grid in grids)
        return f"{what} {ranges}"
    return f"{what} permuted"


def _rounding(derivation: Derivation, name: str, origin: Origin) -> list[str]:
    agreement = origin.agreement
    before = {derivation.before[source].tensor.dtype for source in origin.sources}
    after = derivation.after[name].tensor.dtype
    if agreement.is_equal:
        return [] if before == {after} else [f"as {after}"]
    if agreement.through:
        return [f"rounded to {agreement.through}"]
    if agreement.is_rounded:
        return [f"rounded to {after}"] if before != {after} else []
    return [] if agreement.error < 1e-6 else [f"differs by {agreement.error:.2g}"]
