"""Values of options that are more than a number or a word."""

from __future__ import annotations

import re

import click

_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_NOTHING = "none"


def parse_size(ctx: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    """Parse `4GB`."""
    if text is None:
        return None
    match = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,6})?) ?(B|KB|MB|GB|TB)?", text.strip().upper())
    if match is None:
        raise click.BadParameter(f"needed a size such as 500MB or 4GB, given {text!r}", ctx, parameter)
    return int(float(match[1]) * _UNITS[match[2] or "B"])


def parse_shapes(
    ctx: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
) -> dict[str, tuple[int, ...] | None]:
    """Parse `x=1,3,96,128`; None for an empty optional."""
    shapes: dict[str, tuple[int, ...] | None] = {}
    for text in texts:
        name, equals, sizes = text.rpartition("=")
        parts = [size.strip() for size in sizes.split(",")] if sizes.strip() not in ("", _NOTHING) else []
        if not equals or not name or not all(re.fullmatch("[0-9]{1,18}", part) for part in parts):
            raise click.BadParameter(f"needed NAME=SIZES, such as x=1,3,96,128; given {text!r}", ctx, parameter)
        if name in shapes:
            raise click.BadParameter(f"{name!r} is given twice", ctx, parameter)
        shapes[name] = None if sizes.strip() == _NOTHING else tuple(map(int, parts))
    return shapes
