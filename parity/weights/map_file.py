"""Map files: the correspondence of names in two checkpoints, in TOML. torch's name is on the left.

    "encoder.*.norm.weight" = "encoder.*.norm.gamma"                # another name; `*` is the same text on both sides
    "backbone." = "encoder."                                        # another prefix (both end in a dot, or are empty)
    "fc.weight" = { transpose = true }                              # the last two axes exchanged
    "conv.kernel" = { to = "conv.weight", transpose = [3, 2, 0, 1] }  # the Cell's axis 0 is torch's axis 3, ...
    "conv.weight" = { expand_dims = 2 }                             # with an axis of size 1 at 2 (Conv1d)
    "attn.in_proj_weight" = { to = ["attn.q.weight", "attn.k.weight", "attn.v.weight"] }  # equal parts along axis 0
    "position_ids" = { drop = true }                                # not converted, on either side
    "attn.qkv.weight" = { from = ["q.weight", "k.weight"] }         # the port's name; see `assembly`

The first line that matches a name applies. Names that match no line are decided by `naming`, with the prefixes
replaced. The same file works in both directions, unless a line has `from`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...runtime.errors import UsageError
from ..correspondence.name_patterns import did_you_mean, fill_pattern, match_pattern
from .assembly import Assembly, parse_assembly
from .layouts import UNCHANGED, CheckpointLayout


@dataclass(frozen=True)
class MapEntry:
    """One line.

    Attributes:
        torch: pattern of a name in torch; for a drop, of a name on either side.
        cells: patterns of the corresponding names in Cells, several if it is split; none if it is dropped.
        layout: layout in Cells.
    """

    torch: str
    cells: tuple[str, ...]
    layout: CheckpointLayout = UNCHANGED


@dataclass(frozen=True)
class WeightMap:
    """A map file.

    Attributes:
        entries: the entries in order.
        prefixes: prefix in Cells by prefix in torch, in order.
        where: name of the map in messages.
        assemblies: what tensors of a port are made of, by pattern of the port's names.
    """

    entries: tuple[MapEntry, ...] = ()
    prefixes: Mapping[str, str] = field(default_factory=dict)
    where: str = "the map"
    assemblies: Mapping[str, Assembly] = field(default_factory=dict)

    def assemblies_for(self, names: Collection[str] | None, sources: Collection[str]) -> dict[str, Assembly]:
        """Return what tensors of a port are made of, by name, with each `*` filled in.

        Args:
            names: the port's names; None if they aren't known: then the first name of `from` says what each `*` is.
            sources: the reference's names.

        Raises:
            UsageError: a line fits none of the names, or its first name of `from` doesn't say what each `*` is.
        """
        by_name: dict[str, Assembly] = {}
        for pattern, assembly in self.assemblies.items():
            if "*" not in pattern:
                by_name[pattern] = assembly
                continue
            first = assembly.all_names[0]
            if names is None and first.count("*") != pattern.count("*"):
                raise UsageError(
                    f"{self.where}: {pattern!r}: each `*` must be in the first name of `from`, too, since a checkpoint "
                    f"of the reference doesn't tell the port's names; given {first!r}"
                )
            side, candidates, name_pattern = (
                ("reference", sources, first) if names is None else ("port", names, pattern)
            )
            matching_texts = [texts for name in candidates if (texts := match_pattern(name_pattern, name)) is not None]
            if not matching_texts:
                raise UsageError(
                    f"{self.where}: {pattern!r}: the {side} has no tensor {name_pattern!r}"
                    f"{did_you_mean(name_pattern, candidates)}"
                )
            matches = {fill_pattern(pattern, texts, first): texts for texts in matching_texts}
            for name, texts in matches.items():
                by_name.setdefault(name, assembly.filled(texts, pattern))
        return by_name

    def applies_to(self, names: Collection[str]) -> bool:
        """Whether the map says something about tensors with these names in torch."""
        return bool(self.assemblies) or any(
            self.find_for_torch(name) is not None or self.replace_prefix(name) != name for name in names
        )

    def find_for_torch(self, name: str) -> tuple[MapEntry, tuple[str, ...]] | None:
        """Return the first entry for a name in torch, and the texts that its `*` match."""
        for entry in self.entries:
            texts = match_pattern(entry.torch, name)
            if texts is not None:
                return entry, texts
        return None

    def find_for_cells(self, name: str) -> tuple[MapEntry, tuple[str, ...]] | None:
        """Return the first entry for a name in Cells, and the texts that its `*` match."""
        for entry in self.entries:
            for pattern in entry.cells or (entry.torch,):
                texts = match_pattern(pattern, name)
                if texts is not None:
                    return entry, texts
        return None

    def replace_prefix(self, name: str, *, back: bool = False) -> str:
        """Return the name with its prefix replaced, from torch's to the Cells' or back."""
        for pair in self.prefixes.items():
            source, target = reversed(pair) if back else pair
            texts = match_pattern(f"{source}*", name)
            if texts is not None:
                return fill_pattern(f"{target}*", texts, source)
        return name

    def require_used(self, names: Collection[str], *, back: bool) -> None:
        """Raise `UsageError` for a line, other than a drop, that matches none of the names of the source."""
        lines = [entry.cells if back else (entry.torch,) for entry in self.entries if entry.cells]
        lines += [(f"{cells if back else torch}*",) for torch, cells in self.prefixes.items()]
        for patterns in lines:
            if not any(match_pattern(pattern, name) is not None for pattern in patterns for name in names):
                raise UsageError(
                    f"{self.where}: no name in the checkpoint matches {' or '.join(map(repr, patterns))}"
                    f"{did_you_mean(patterns[0], names)}"
                )


def read_map(path: str) -> WeightMap:
    """Read a map file; raise `UsageError` if it can't be read or holds something else."""
    try:
        data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"can't read the map {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"can't read the map {path}: it is not UTF-8 text ({error})") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(
            f'{path} is not TOML: {error}\nPut a name with a dot in quotes: "fc.weight" = "fc.weight"'
        ) from error
    return parse(data, path)


def parse(data: Mapping[str, Any], where: str) -> WeightMap:
    """Parse the lines; raise `UsageError` for a malformed one."""
    entries: list[MapEntry] = []
    prefixes: dict[str, str] = {}
    assemblies: dict[str, Assembly] = {}
    for key, value in data.items():
        if isinstance(value, str) and _is_prefix(key) and _is_prefix(value):
            prefixes[key] = value
            _require_as_many_stars(key, (value,), where)
        elif isinstance(value, dict) and "from" in value:
            assemblies[key] = parse_assembly(value, f"{where}: {key!r}")
        else:
            entries.append(_entry(key, value, where))
    return WeightMap(tuple(entries), prefixes, where, assemblies)


def _is_prefix(text: str) -> bool:
    return text == "" or text.endswith(".")


def _entry(key: str, value: Any, where: str) -> MapEntry:
    form = {"to": value} if isinstance(value, str) else value
    if not isinstance(form, dict) or not form or not form.keys() <= {"to", "transpose", "expand_dims", "drop"}:
        raise UsageError(
            f"{where}: {key!r}: needed a name or a table with to, transpose, expand_dims, drop or from, given "
            f"{value!r}\n"
            'Put a name with a dot in quotes: "fc.weight" = "fc.weight"'
        )
    if "drop" in form:
        if form != {"drop": True}:
            raise UsageError(f"{where}: {key!r}: a drop is only {{ drop = true }}, given {value!r}")
        return MapEntry(key, ())
    to, transpose, unit_axis = form.get("to", key), form.get("transpose"), form.get("expand_dims")
    names = (to,) if isinstance(to, str) else tuple(to) if isinstance(to, list) else ()
    if not names or not all(isinstance(name, str) and name and not name.endswith(".") for name in (key, *names)):
        raise UsageError(f"{where}: {key!r}: `to` must be a name or a list of names, given {to!r}")
    if isinstance(transpose, list) and all(type(axis) is int for axis in transpose):
        transpose = tuple(transpose)
    elif transpose is not True and transpose is not None:
        raise UsageError(f"{where}: {key!r}: `transpose` must be true or a list of axes, given {transpose!r}")
    if unit_axis is not None and (type(unit_axis) is not int or unit_axis < 0):
        raise UsageError(f"{where}: {key!r}: `expand_dims` must be the number of an axis, given {unit_axis!r}")
    _require_as_many_stars(key, names, where)
    return MapEntry(key, names, CheckpointLayout(transpose, unit_axis))


def _require_as_many_stars(key: str, names: tuple[str, ...], where: str) -> None:
    for name in names:
        if name.count("*") != key.count("*"):
            raise UsageError(
                f"{where}: {key!r} and {name!r} must have the same number of `*`: each stands for the same text"
            )
