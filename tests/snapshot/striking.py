"""What differs from one run of the same code to the next is struck out of texts: times, memory, and paths."""

from __future__ import annotations

import json
import re
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SITE = sysconfig.get_paths()["purelib"]
SECONDS = frozenset({"seconds", "probing_seconds", "started", "duration", "time", "timestamp", "date"})
"""Keys of JSON whose values are times."""

_TIMES = re.compile(r"\b\d+(?:\.\d+)?(?= (?:s|seconds|ms)\b)")
_MEMORY = re.compile(r"\b\d+(?:\.\d+)?(?= [kMG]B at most\b)")
_TEMPORARY = re.compile(re.escape(tempfile.gettempdir()) + r"/[\w-]*[a-z0-9_]{8}\b")
_PROGRESS = re.compile(r"^.{1,120} \(\d+ s(?:, about \d+ s left)?\)$")
_ADDRESSES = re.compile(r"\b0x[0-9a-f]{6,}\b")
_DIGITS_OF_XML = re.compile(r'\b(time|timestamp|hostname)="[^"]*"')


def strike(text: str, folder: Path) -> str:
    """Return a text without progress lines, times, memory, addresses, and paths: of its folder and of this machine."""
    for path, name in ((folder.resolve(), "{folder}"), (folder, "{folder}"), (SITE, "{site}"), (ROOT, "{root}")):
        text = text.replace(str(path), name)
    lines = [line for line in text.splitlines() if not _PROGRESS.match(line)]
    text = _TEMPORARY.sub("{temporary}", "\n".join(line.rstrip() for line in lines))
    text = _DIGITS_OF_XML.sub(r'\1="…"', text)
    return _ADDRESSES.sub("0x…", _MEMORY.sub("…", _TIMES.sub("…", text)))


def strike_json(text: str, folder: Path) -> str:
    """Return a JSON document, a line for each value, without what `strike` strikes and without times by their keys."""
    return strike(json.dumps(_without_times(json.loads(text)), indent=1, sort_keys=True, ensure_ascii=False), folder)


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: "…" if key in SECONDS else _without_times(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_times(inner) for inner in value]
    return value
