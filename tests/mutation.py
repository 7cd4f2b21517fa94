"""Random mutations of files and their contents, for tests that readers survive any of them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from random import Random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

NUMBERS = (0, 1, -1, 2, 3, 7, 40, -9, 1000, 2**31 - 1, -(2**31), 10**12, 2**63 - 1, -(2**63))
FLOATS = (0.0, 1.0, -1.0, 0.5, 1e30, float("inf"), float("nan"))
TEXTS = ("", "x", "y", "n", "a.b", "9**9", "n//0", "int64", "Loop", "é", "0", "-1", "/a/b/c", "name" * 100)


def mutate_bytes(data: bytes, random: Random) -> bytes:
    """Return data with a few bytes changed, removed or inserted, or truncated."""
    result = bytearray(data)
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(result) + 1)
        match random.randrange(4):
            case 0:
                result[at : at + 1] = bytes([random.randrange(256)])
            case 1:
                result[at : at + random.randint(1, 8)] = b""
            case 2:
                result[at:at] = result[at - random.randint(1, 8) : at]
            case _:
                result = result[: max(at, len(result) // 2)]
    return bytes(result)


def mutate_proto(message: Message, random: Random) -> None:
    """Change a few fields of a message, or of messages inside it, in place."""
    for _ in range(random.randint(1, 3)):
        places = list(_fields(message))
        if places:
            _change_field(*random.choice(places), random)


def _fields(message: Message) -> Iterator[tuple[Message, FieldDescriptor]]:
    for field, value in message.ListFields():
        yield message, field
        if field.message_type is not None:
            for inner in value if field.is_repeated else [value]:
                yield from _fields(inner)


def _change_field(message: Message, field: FieldDescriptor, random: Random) -> None:
    value = getattr(message, field.name)
    if not field.is_repeated:
        if field.message_type is not None or random.random() < 0.2:
            message.ClearField(field.name)
        else:
            setattr(message, field.name, _other(field, value, random))
        return
    at = random.randrange(len(value))
    match random.randrange(4):
        case 0:
            del value[at]
        case 1:
            value.append(copy.deepcopy(value[at]))
        case 2:
            target = random.randrange(len(value))
            items = [copy.deepcopy(item) for item in value]
            items[at], items[target] = items[target], items[at]
            message.ClearField(field.name)
            value.extend(items)
        case _ if field.message_type is None:
            value[at] = _other(field, value[at], random)
        case _:
            value[at].Clear()


def _other(field: FieldDescriptor, value: Any, random: Random) -> Any:
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_INT32:
            return random.choice([n for n in (*NUMBERS, value + 1) if abs(n) < 2**31])
        case FieldDescriptor.CPPTYPE_INT64:
            return random.choice([n for n in (*NUMBERS, value + 1, -value) if -(2**63) <= n < 2**63])
        case FieldDescriptor.CPPTYPE_UINT64:
            return abs(random.choice(NUMBERS))
        case FieldDescriptor.CPPTYPE_FLOAT | FieldDescriptor.CPPTYPE_DOUBLE:
            return random.choice(FLOATS)
        case FieldDescriptor.CPPTYPE_ENUM:
            return random.choice(list(field.enum_type.values_by_number))
    if isinstance(value, bytes):
        return mutate_bytes(value, random)
    return random.choice([*TEXTS, f"{value}x", value[1:]])


def mutate_json(value: Any, random: Random) -> Any:
    """Return a copy in which a few inner values are replaced by values of any kind, or removed."""
    result = copy.deepcopy(value)
    for _ in range(random.randint(1, 3)):
        places = list(_places(result))
        if places:
            _change_place(*random.choice(places), random)
    return result


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


def _change_place(container: Any, key: Any, random: Random) -> None:
    value = container[key]
    if random.random() < 0.6 and not isinstance(value, (dict, list)):
        container[key] = _same_kind(value, random)
        return
    match random.randrange(5):
        case 0:
            del container[key]
        case 1 if isinstance(container, list):
            container.insert(key, copy.deepcopy(value))
        case 1:
            container[random.choice(TEXTS)] = copy.deepcopy(value)
        case 2:
            donor, position = random.choice(list(_places(container)))
            container[key] = copy.deepcopy(donor[position])
        case _:
            plain = [None, True, [], {}, [[]], {"dim": "n"}, {"dtype": "float32"}, {"float": "nan"}]
            container[key] = random.choice([*NUMBERS, *FLOATS, *TEXTS, *plain])


def _same_kind(value: Any, random: Random) -> Any:
    """Return another value of the same type."""
    if isinstance(value, bool) or value is None:
        return random.choice([True, False, None])
    if isinstance(value, int):
        return random.choice([*NUMBERS, value + 1, value - 1])
    return random.choice(FLOATS if isinstance(value, float) else [*TEXTS, "float16", "bfloat16", "bool", "int8"])
