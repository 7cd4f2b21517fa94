"""`Coverage`: of how many of a reference's parameters the gradients were compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...runtime.errors import UsageError

HALF = 0.5
"""The least share of the parameters that a test asks for, unless it says another."""
NAMED = 4  # parameters that a message names


@dataclass(frozen=True, slots=True)
class Coverage:
    """The parameters that the reference trains, in the Cells that are to be judged.

    Attributes:
        compared: how many have a gradient that was compared with one of the other side.
        missing: names of the others.
    """

    compared: int
    missing: Sequence[str]

    @property
    def parameters(self) -> int:
        """The number of all."""
        return self.compared + len(self.missing)

    @property
    def in_words(self) -> str:
        """The coverage as a phrase that follows "parity holds"; empty where nothing is missing."""
        if not self.missing:
            return ""
        return f"with the gradients of {self.compared} of {self.parameters} parameter{'s' * (self.parameters != 1)}"

    def shortfall(self, least: float, setting: str) -> str:
        """Return as a message that too few parameters were compared; empty where they are enough.

        Args:
            least: the least share of the parameters.
            setting: what the user calls `least`.
        """
        if not self.missing or self.compared >= least * self.parameters:
            return ""
        names = ", ".join(self.missing[:NAMED])
        more = f" and {len(self.missing) - NAMED} more" if len(self.missing) > NAMED else ""
        count = f"only {self.compared} of {self.parameters} parameters"
        return (
            f"nothing differs, but the gradients of {count} were compared\n"
            f"  needed: at least {least:.0%} of them ({setting})\n"
            f"  not compared: {names}{more}\n"
            f"  what to do: say which parameters belong together (`cells`, `weights`), or, if outputs and "
            f"gradients of inputs are enough, {setting.partition('=')[0]}=0"
        )


def require_share(least: float, setting: str) -> None:
    """Raise `UsageError` unless `least` is a share: a number from 0 to 1."""
    if isinstance(least, bool) or not isinstance(least, (int, float)) or not 0 <= least <= 1:
        raise UsageError(f"{setting} must be a number from 0 to 1, given {least!r}")
