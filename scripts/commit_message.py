"""Check the message of a commit: `python scripts/commit_message.py FILE`, which git calls as the hook commit-msg.

The subject has at most 72 characters, and where more than 30 lines change, a text below it says why.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

LONGEST_SUBJECT = 72
MOST_LINES_WITHOUT_A_REASON = 30
GENERATED = ("Merge ", "fixup! ", "squash! ", "amend! ", "Revert ")
"""How subjects begin that git writes."""


def problems(message: str, changed: int) -> list[str]:
    """Return what is wrong with a message of a commit that adds and removes this many lines together."""
    lines = [line for line in message.partition("\n# ---")[0].splitlines() if not line.startswith("#")]
    subject, body = (lines[0].strip() if lines else ""), "\n".join(lines[1:]).strip()
    if subject.startswith(GENERATED):
        return []
    texts = []
    if not subject:
        texts.append("the first line is empty: say there in the imperative what the commit does")
    if len(subject) > LONGEST_SUBJECT:
        texts.append(f"the first line has {len(subject)} characters: shorten it to {LONGEST_SUBJECT}")
    if lines[1:] and lines[1].strip():
        texts.append("the second line isn't empty: put an empty line below the first")
    if not body and changed > MOST_LINES_WITHOUT_A_REASON:
        texts.append(f"{changed} lines change: say below the first line why, after an empty line")
    return texts


def changed_lines() -> int:
    """Return how many lines of text the staged change adds and removes."""
    command = ["git", "diff", "--cached", "--numstat"]
    rows = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return sum(int(number) for row in rows for number in row.split("\t")[:2] if number != "-")


def main() -> int:
    """Print what is wrong with the message in the file that is given; the exit code is 1 if something is."""
    message = Path(sys.argv[1]).read_text(encoding="utf-8")
    texts = problems(message, changed_lines())
    for text in texts:
        sys.stderr.write(f"commit message: {text}\n")
    return 1 if texts else 0


if __name__ == "__main__":
    sys.exit(main())
