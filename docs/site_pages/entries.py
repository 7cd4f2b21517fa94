"""The entries of the reference: functions and classes with their signatures, types and docstrings."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .docstrings import markdown


class _Type:
    """An annotation as it is shown."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def entry(module: str, name: str, value: Any, homes: Mapping[int, str]) -> str:
    """The directive that describes a public name of a module; a further form of what is described is a link to it."""
    described = described_at(value, homes)
    if described != f"{module}.{name}":
        if inspect.isclass(value) and homes[id(value)] == f"{module}.{name}":
            return _directive(
                "class", f"{name}{signature(value)}", f"Operator object of {reference(described)}.", False
            )
        return _directive("data", name, f"The same as {reference(described)}.", False)
    if not inspect.isclass(value):
        return _directive("function", f"{name}{signature(value)}", linked(markdown(value), module, value, homes))
    fields = _fields(value)
    description = linked(markdown(value, fields), module, value, homes)
    text = "\n\n".join([description, *_methods(value, homes)])
    return _directive("class", name if fields else f"{name}{signature(value)}", text, colons=4)


def described_at(value: Any, homes: Mapping[int, str]) -> str:
    """The qualified name that has the description of a value: that of its function for an operator object."""
    function = vars(value).get("_function") if inspect.isclass(value) else None
    return homes.get(id(function.__func__) if function else id(value)) or homes[id(value)]


def _methods(cls: type, homes: Mapping[int, str]) -> Iterator[str]:
    """The public methods of a class, and of its bases up to one that is described itself."""
    methods: dict[str, Any] = {}
    for base in cls.__mro__:
        if base is not cls and (id(base) in homes or not base.__module__.startswith("cellbridge")):
            break
        methods = {**vars(base), **methods}
    for name, method in sorted(methods.items()):
        if not name.startswith("_") and inspect.isfunction(method) and inspect.getdoc(method):
            home = homes.get(id(method))
            text = f"The function {reference(home)}." if home else markdown(method)
            yield _directive("method", f"{name}{signature(method, bound=True)}", text, False)


def linked(text: str, module: str, value: Any, homes: Mapping[int, str]) -> str:
    """A description in which names of the module are links, unless they are parameters or in an example."""
    described = set(homes.values())
    own = {value.__name__, *_parameters(value)}

    def link(code: re.Match[str]) -> str:
        qualified = f"{module}.{code[1]}"
        return reference(qualified) if qualified in described and code[1] not in own else code[0]

    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else re.sub(r"`(\w+)`", link, part) for part in parts)


def _parameters(value: Any) -> list[str]:
    """The names of its arguments; of those in a call, for an operator object."""
    try:
        return list(inspect.signature(getattr(value, "_function", value)).parameters)
    except (TypeError, ValueError):
        return []


def reference(qualified: str) -> str:
    """A link to an entry, which shows the last part of its name; the build fails if there is none."""
    return f"[`{qualified.rpartition('.')[2]}`](#{qualified})"


def _directive(kind: str, declaration: str, content: str, listed: bool = True, *, colons: int = 3) -> str:
    """A directive, which the contents list of the page has too or not."""
    fence = ":" * colons
    option = "" if listed else ":no-contents-entry:\n"
    return f"{fence}{{py:{kind}}} {declaration}\n{option}\n{content}\n{fence}"


def signature(value: Callable[..., Any], *, bound: bool = False) -> str:
    """(x: Tensor, *, axis: int = -1) -> Tensor, on one line; without types that say nothing."""
    try:
        declared = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    parameters = [
        parameter.replace(annotation=_annotation(parameter.annotation))
        for parameter in list(declared.parameters.values())[1 if bound else 0 :]
    ]
    returned = inspect.Signature.empty if inspect.isclass(value) else _annotation(declared.return_annotation)
    text = str(declared.replace(parameters=parameters, return_annotation=returned))
    return re.sub(r"<([\w. ]+?)(?: at 0x\w+)?>", r"\1", text).replace("\n", " ")


def _annotation(annotation: Any) -> Any:
    """An annotation in short; `Any`, and the keywords of another class (`Unpack`), are left to the docstring."""
    text = short(annotation)
    return inspect.Parameter.empty if text in ("", "Any") or text.startswith("Unpack[") else _Type(text)


def short(annotation: Any) -> str:
    """An annotation without modules, and without `Any` as the elements of a container."""
    if annotation is inspect.Parameter.empty:
        return ""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = re.sub(r"\b(?:[a-z_]\w*\.)+(?=\w)", "", text.strip("'\""))
    text = re.sub(r"(?<=\w)\[(?:Any|\.\.\.|, )+\]", "", text)
    return text.replace("PathLike[str]", "Path")


def _fields(cls: type) -> dict[str, str]:
    """Type and default of each field of a dataclass, by name."""
    if not dataclasses.is_dataclass(cls):
        return {}
    described = {}
    for field in dataclasses.fields(cls):
        plain = field.default is dataclasses.MISSING or not isinstance(field.default, (bool, int, float, str))
        described[field.name] = f"`{short(field.type)}`" + ("" if plain else f", by default `{field.default!r}`")
    return described
