"""Files that say which Cell of a recording is which of the reference's, in TOML. The reference's name is on the left.

    [cells]
    "encoder.layer.*.output" = "blocks.*.mlp"                         # each `*` is the same text on both sides
    "encoder." = "body."                                              # another prefix
    "layer.*.query" = "blocks.*.qkv[..., 0:384]"                      # a part of its output
    "layer.*.mlp" = { cell = "stack.mlp", output = "[*]", input = "[*]" }   # layers stacked along an axis
    "conv1" = { cell = "conv1", transpose = [0, 3, 1, 2] }            # other axes: the reference's 1 is its 3
    "layer.*.dropout" = false                                         # not compared, whatever has that name there
    "up.*.conv" = { cell = "ups.*.conv", input = false }              # what it takes isn't compared

    [parameters]
    "layer.*.query.weight" = "blocks.*.qkv.kernel[:, 0:384]"
    "conv1.weight" = { parameter = "conv1.kernel", transpose = [3, 2, 0, 1] }

    [tokens]
    mask = "attention_mask"    # [tokens, ...] are the reference's [batch, length, ...] where this input isn't 0

The first line that matches a name applies. A name that matches no line is the same on both sides, and so are the names
of a Cell's parameters within it. What a line names and has as many elements, is read in the reference's shape.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

from ....runtime.errors import UsageError
from ....runtime.visible import visible_name
from ...correspondence.name_patterns import did_you_mean, fill_pattern, match_pattern
from .views import WHOLE, View, parse_index

NO_NAME = "\0"
"""What nothing is called in a recording."""


@dataclass(frozen=True)
class Line:
    """One line.

    Attributes:
        reference: pattern of a name of the reference.
        candidate: pattern of the name in the recording; `NO_NAME` if there is no counterpart.
        outputs: the part of its outputs, or of the parameter.
        inputs: the part of its inputs; None if they aren't compared.
        where: its place in messages.
    """

    reference: str
    candidate: str
    outputs: View
    inputs: View | None
    where: str

    def match(self, name: str) -> Match | None:
        """Return what a name of the reference is called in the recording; None if the line isn't about it."""
        if self.reference.endswith("."):  # a prefix
            texts = match_pattern(f"{self.reference}*", name)
            return None if texts is None else Match(fill_pattern(f"{self.candidate}*", texts, self.reference))
        texts = match_pattern(self.reference, name)
        if texts is None:
            return None
        inputs = None if self.inputs is None else self.inputs.filled(texts, self.where)
        name = fill_pattern(self.candidate, texts[: self.candidate.count("*")], self.reference)
        return Match(name, self.outputs.filled(texts, self.where), inputs)


@dataclass(frozen=True)
class Match:
    """A name in the recording, and the parts of its tensors."""

    name: str
    outputs: View = WHOLE
    inputs: View | None = WHOLE

    @property
    def is_part(self) -> bool:
        """Whether it is a part of the other Cell, whose gradients by its inputs are sums over all parts."""
        return bool(self.outputs.index) and not (self.inputs is not None and self.inputs.index)


@dataclass(frozen=True)
class NameMap:
    """A file of names; without lines, all names are the same.

    Attributes:
        cells: lines on Cells.
        parameters: lines on parameters and buffers.
        where: name of the file in messages.
        mask: name of the network's input that is 0 where there is padding, if the recording has the tokens without it.
    """

    cells: tuple[Line, ...] = ()
    parameters: tuple[Line, ...] = ()
    where: str = "the map"
    mask: str | None = None

    def cell(self, path: str) -> Match:
        """Return what a Cell of the reference is called in the recording."""
        return next((match for line in self.cells if (match := line.match(path)) is not None), Match(path))

    def parameter(self, name: str) -> Match:
        """Return what a parameter or buffer is called."""
        for line in self.parameters:
            if (match := line.match(name)) is not None:
                return match
        path, _, last = name.rpartition(".")
        around = self.cell(path)
        view = View(reshapes=around.outputs.reshapes)
        return Match(f"{around.name}.{last}" if around.name else last, view)

    def after(self, first: NameMap) -> NameMap:
        """Return a map in which the lines of another one come before these."""
        return replace(self, cells=first.cells + self.cells, parameters=first.parameters + self.parameters)

    def require_used(self, cells: Iterable[str], parameters: Iterable[str]) -> None:
        """Raise `UsageError` for a line that matches none of the reference's names."""
        for lines, names in ((self.cells, list(cells)), (self.parameters, list(parameters))):
            for line in lines:
                if names and not any(line.match(name) for name in names):
                    raise UsageError(
                        f"{line.where} matches nothing in the reference{did_you_mean(line.reference, names)}"
                    )


def read_names(path: str | PathLike[str]) -> NameMap:
    """Read a file of names.

    Raises:
        UsageError: it can't be read, or holds something else.
    """
    try:
        data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"can't read the map {path}: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(
            f'{path} is not TOML: {error}\nPut a name with a dot in quotes: "layers.0" = "blocks.0"'
        ) from error
    unknown = data.keys() - {"cells", "parameters", "tokens"}
    if unknown or not all(isinstance(table, dict) for table in data.values()):
        given = ", ".join(map(visible_name, sorted(data)))
        raise UsageError(f"{path}: needed the tables [cells], [parameters] and [tokens], given {given}")
    tokens = data.pop("tokens", {"mask": None})
    if tokens.keys() != {"mask"} or not isinstance(tokens["mask"], str | None):
        raise UsageError(f'{path}: [tokens]: needed mask = "the name of an input", given {visible_name(repr(tokens))}')
    lines = {name: tuple(_line(k, v, name, str(path)) for k, v in table.items()) for name, table in data.items()}
    return NameMap(lines.get("cells", ()), lines.get("parameters", ()), str(path), tokens["mask"])


def _line(key: str, value: Any, table: str, path: str) -> Line:
    where = f"{path}: {visible_name(repr(key))}"
    if value is False:
        return Line(key, NO_NAME, WHOLE, WHOLE, where)
    is_cell = table == "cells"
    name_of = "cell" if is_cell else "parameter"
    form: Mapping[str, Any] = {name_of: value} if isinstance(value, str) else value
    known = {name_of, "transpose", *(("output", "input") if is_cell else ())}
    if not isinstance(form, dict) or name_of not in form or not form.keys() <= known:
        raise UsageError(f"{where}: needed a name, a table with {', '.join(sorted(known))}, or false; given {value!r}")
    takes = not (is_cell and form.get("input") is False)
    texts = {name: form.get(name, "") for name in (name_of, "output", *(["input"] if takes else []))}
    if not all(isinstance(text, str) for text in texts.values()):
        raise UsageError(f"{where}: needed strings, given {value!r}")
    candidate, bracket, index = texts[name_of].partition("[")
    index = texts["output"] or bracket + index
    transpose = form.get("transpose", [])
    if not isinstance(transpose, list) or sorted(map(str, transpose)) != sorted(map(str, range(len(transpose)))):
        raise UsageError(
            f"{where}: transpose: needed all axes in their order, such as [0, 3, 1, 2], given {transpose!r}"
        )
    axes = tuple(map(int, transpose))
    inputs = View(parse_index(texts.get("input", ""), where), axes, reshapes=True) if is_cell else WHOLE
    is_prefix = key.endswith(".") or key == ""
    if is_prefix and (not isinstance(value, str) or not (candidate.endswith(".") or candidate == "") or index):
        raise UsageError(f"{where}: a prefix, which ends in a dot, needs another prefix, given {value!r}")
    if key.count("*") < candidate.count("*"):
        raise UsageError(f"{where}: {candidate!r} has more `*`: each stands for the same text on both sides")
    return Line(key, candidate, View(parse_index(index, where), axes, reshapes=True), inputs if takes else None, where)
