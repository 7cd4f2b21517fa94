"""Where a report comes from: when, by which versions, and by which command line."""

from __future__ import annotations

import os
import shlex
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from ... import runtime
from ...recorder import library_versions


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _command() -> str:
    """Return the command that runs the current test of pytest, which says its name in the environment; else nothing."""
    test, _, _ = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")
    return f"pytest {shlex.quote(test)}" if test else ""


def _versions() -> dict[str, str]:
    return {"cellbridge": runtime.__version__} | library_versions()


@dataclass(frozen=True)
class Origin:
    """Where a report comes from.

    Attributes:
        date: when it was made, in UTC, as ISO 8601 writes it, to the second.
        versions: versions of this project, of Python and of the libraries in use, by name.
        command: the command line, but for where reports are written; in Python the one that runs the test, or empty
            outside of tests.
        reference: the reference's file, where the command line names both sides, or its class, where two networks are
            compared in Python; empty otherwise.
    """

    date: str = field(default_factory=_now)
    versions: dict[str, str] = field(default_factory=_versions)
    command: str = field(default_factory=_command)
    reference: str = ""

    @property
    def facts(self) -> list[tuple[str, str]]:
        """What a view says of it, each with its name: `("Versions", "cellbridge 0.1.0, python 3.12.1")`."""
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        facts = [("Date", self.date), ("Versions", versions), ("Command", self.command)]
        return [fact for fact in facts if fact[1]]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)
