"""`Tally`: on how many probes a side was judged, and what is said of the others."""

from __future__ import annotations

from dataclasses import dataclass, field

LONGEST_SECONDS = 300.0
"""A guard, in case the work is estimated far too low."""


@dataclass
class Counts:
    """Numbers of probes on which a side was judged, the reference can't be, and that were left out; choices made."""

    judged: int = 0
    refused: int = 0
    late: int = 0
    chosen: set[str] = field(default_factory=set)


@dataclass
class Tally:
    """The probes of one side.

    Attributes:
        side: name of the side.
        reference: name of the reference.
        of_outputs: the probes on which outputs were compared.
        of_gradients: those on which gradients were, too.
        struck: whether there was no time for more.
        not_taken: why the side doesn't run on probes that the reference takes, by their names.
    """

    side: str
    reference: str
    of_outputs: Counts = field(default_factory=Counts)
    of_gradients: Counts = field(default_factory=Counts)
    struck: bool = False
    not_taken: dict[str, str] = field(default_factory=dict)

    def notes(self) -> list[str]:
        """Return remarks for the reader of the report."""
        return [*self._of_not_taken(), self._of_counts()]

    def _of_not_taken(self) -> list[str]:
        if not self.not_taken:
            return []
        name, reason = next(iter(self.not_taken.items()))
        more = f", and on {len(self.not_taken) - 1} others like that" if len(self.not_taken) > 1 else ""
        return [f"{self.side} doesn't run with {name}, which {self.reference} takes: it {reason}{more}"]

    def _of_counts(self) -> str:
        of_outputs, of_gradients = self.of_outputs, self.of_gradients
        text = f"{self.side} was also compared on {of_outputs.judged} inputs derived from the given ones"
        if of_gradients.judged and not of_outputs.judged:
            text = (
                f"gradients of {self.side} were also compared on {of_gradients.judged} inputs derived from the given "
                "ones"
            )
        elif of_gradients.judged:
            text += f", with gradients on {of_gradients.judged}"
        if of_outputs.refused:
            text += f"; {self.reference} doesn't run, or isn't finite, on {of_outputs.refused} others"
        late = [f"{of_outputs.late} more"] if of_outputs.late else []
        late += [f"the gradients on {of_gradients.late}"] if of_gradients.late else []
        why = f"after {LONGEST_SECONDS:.0f} s" if self.struck else "to bound the work"
        return text + (f"; {' and '.join(late)} were left out, {why}" if late else "")
