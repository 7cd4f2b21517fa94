"""The schema of `program.json` in a saved program, which is checked before the file is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import ProgramError

Check = Callable[[Any, str], None]
SHOWN = 60  # characters of an invalid value in an error


def check_schema(document: dict[str, Any], path: str = "") -> None:
    """Raise `ProgramError`, which names the field, unless the JSON has the form that `save` writes.

    Args:
        document: the JSON of a program or of a sub-program.
        place: prefix of the field names in messages.
    """
    _PROGRAM(document, path)
    count = len(document["sources"])
    for number, node in enumerate(document["nodes"]):
        field = _inside(path, f"nodes[{number}].source")
        if node["source"] is not None and not 0 <= node["source"] < count:
            raise ProgramError(f"{field}: needed one of {count} sources, given {node['source']}")
        if node["op"] == "boundary":
            _BOUNDARY(node["attributes"], _inside(path, f"nodes[{number}].attributes"))


def _wrong(field: str, needed: str, value: Any) -> ProgramError:
    shown = repr(value)
    return ProgramError(
        f"{field or 'the program'}: needed {needed}, given {shown[:SHOWN]}{'...' if len(shown) > SHOWN else ''}"
    )


def _inside(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _of_type(kind: type, needed: str) -> Check:
    def check(value: Any, field: str) -> None:
        if type(value) is not kind:  # a bool isn't an int
            raise _wrong(field, needed, value)

    return check


def _text(value: Any, field: str) -> None:
    if type(value) is not str:
        raise _wrong(field, "a string", value)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise _wrong(field, "a valid Unicode string", value) from error


def _either(needed: str, *checks: Check) -> Check:
    def check(value: Any, field: str) -> None:
        for variant in checks:
            try:
                return variant(value, field)
            except ProgramError:
                pass
        raise _wrong(field, needed, value)

    return check


def _list(of: Check) -> Check:
    def check(value: Any, field: str) -> None:
        if type(value) is not list:
            raise _wrong(field, "a list", value)
        for number, item in enumerate(value):
            of(item, f"{field}[{number}]")

    return check


def _row(**of: Check) -> Check:
    """A list with one item for each name."""

    def check(value: Any, field: str) -> None:
        if type(value) is not list or len(value) != len(of):
            raise _wrong(field, f"a list of {', '.join(of)}", value)
        for item, (name, check_item) in zip(value, of.items(), strict=True):
            check_item(item, _inside(field, name))

    return check


def _by_name(of: Check) -> Check:
    def check(value: Any, field: str) -> None:
        if type(value) is not dict:
            raise _wrong(field, "an object", value)
        for name, item in value.items():
            _text(name, field)
            of(item, f"{field}[{name!r}]")

    return check


def _object(**of: Check) -> Check:
    """An object with at least these fields."""

    def check(value: Any, field: str) -> None:
        if type(value) is not dict:
            raise _wrong(field, "an object", value)
        for name, check_item in of.items():
            if name not in value:
                raise ProgramError(f"{_inside(field, name)} is missing")
            check_item(value[name], _inside(field, name))

    return check


def _attribute(value: Any, field: str) -> None:
    if type(value) is dict and type(value.get("program")) is dict:
        check_schema(value["program"], field)
    elif type(value) is dict:
        kind = next(iter(value), "")
        if len(value) != 1 or kind not in ("dtype", "dim", "float"):
            raise _wrong(field, "a value, a dtype, a dim, a float or a program", value)
        _text(value[kind], _inside(field, kind))
    elif type(value) is list:
        _list(_attribute)(value, field)
    elif type(value) is str:
        _text(value, field)


def _structure(value: Any, field: str) -> None:
    """Check the contents of containers; `Structure.from_json` checks the containers themselves."""
    if type(value) is dict:
        if "constant" in value:
            return _scalar(value["constant"], _inside(field, "constant"))
        for kind in ("tuple", "list", "dict", "namedtuple"):
            if kind in value:
                _list(_structure)(value[kind], _inside(field, kind))
                _list(_key)(value.get("keys", []), _inside(field, "keys"))
                return _text(value.get("name", ""), _inside(field, "name"))
    if value != "tensor":
        raise _wrong(field, "a tensor, a constant or a container", value)
    return None


def _key(value: Any, field: str) -> None:
    if type(value) is dict:
        _object(tuple=_list(_scalar))(value, field)
    else:
        _scalar(value, field)


def _scalar(value: Any, field: str) -> None:
    if type(value) is str:
        _text(value, field)
    elif type(value) not in (bool, int, float, type(None)):
        raise _wrong(field, "a number, a string, true, false or null", value)


_FLAG = _of_type(bool, "true or false")
_INTEGER = _of_type(int, "an integer")
_NOTHING = _of_type(type(None), "null")
_TEXT_OR_NOTHING = _either("a string or null", _text, _NOTHING)
_INTEGER_OR_NOTHING = _either("an integer or null", _INTEGER, _NOTHING)
_BOUNDARY = _object(call=_INTEGER, kind=_text, slot=_text)
_VALUE = _row(name=_text, dtype=_text, shape=_list(_either("an integer or a string", _INTEGER, _text)))
_PROGRAM = _object(
    train=_FLAG,
    inputs=_list(_VALUE),
    outputs=_list(_text),
    parameters=_by_name(_object(value=_VALUE, trainable=_FLAG, aliases=_list(_text))),
    buffers=_by_name(_object(value=_VALUE, update=_TEXT_OR_NOTHING)),
    constants=_list(_VALUE),
    calls=_list(_row(path=_text, **{"class name": _text}, index=_INTEGER, parent=_INTEGER_OR_NOTHING)),
    sources=_list(_row(file=_text, line=_INTEGER, text=_text, operator=_text)),
    nodes=_list(
        _object(
            op=_text,
            inputs=_list(_TEXT_OR_NOTHING),
            attributes=_by_name(_attribute),
            outputs=_list(_VALUE),
            cell=_INTEGER,
            source=_INTEGER_OR_NOTHING,
        )
    ),
    arguments=_structure,
    result=_structure,
)
