"""The README of a reproduction: what is expected, what happens, versions, and what the tensors are.

Names and texts from the network stand in it as code spans on one line, in which nothing ends the span.
"""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from ....runtime.visible import visible_name
from ...results.cell_report import CellReport
from .case import Case
from .script import ALIKE, DIFFERENT, SCRIPT, Script

README = "README.md"
LONGEST = 200
STAND_IN = (
    "The candidate itself can't be read as a program: `candidate` is the reference's Cell with the cause below, which "
    "was proved to compute what the candidate does."
)


def quote(text: str) -> str:
    """Return a text as a code span of Markdown: on one line, shortened, without the mark that ends a span."""
    plain = visible_name(text).replace("`", "'").strip()
    return f"`{plain if len(plain) <= LONGEST else plain[:LONGEST] + '…'}`"


def readme(
    case: Case,
    script: Script,
    cell: CellReport,
    side: str,
    printed: str,
    packages: tuple[str, ...],
    note: str,
    *,
    is_changed: bool,
) -> str:
    """Return the README.

    Args:
        case: what is reproduced.
        script: the script.
        cell: the report on the Cell.
        side: the side that fails.
        printed: what the script printed.
        packages: the packages that the script needs.
        note: that the search for a smaller case was cut; empty if it came to its end.
        is_changed: whether the candidate is the reference's Cell with the cause, because it can't be read itself.
    """
    what = "gradients" if case.gradients else "outputs"
    reference_size, candidate_size = (_count(len(program.nodes), "operation") for program in case.programs)
    elements = _count(sum(array.size for array in (script.inputs | script.weights).values()), "number")
    runs = "`model.onnx` in ONNX Runtime" if "onnxruntime" in packages else "`candidate`"
    lines = [
        f"# {quote(cell.path or '(root)')} computes other {what}",
        "",
        f"A Cell of the class {quote(cell.class_name)}, of which {quote(side)} computes other {what} than the "
        f"reference. What remains of it here: {reference_size} of the reference, {candidate_size} of the "
        f"candidate, {elements}.",
        *([STAND_IN] if is_changed else []),
        *([f"It may not be the smallest: {note}."] if note else []),
        "",
        f"    python {SCRIPT}",
        "",
        f"- **Expected:** `reference`, in the script, and {runs} compute the same up to rounding: the last line is "
        f"`{ALIKE}`, and the exit code 0.",
        f"- **Happens:** they compute different {what}: the last line is `{DIFFERENT}`, and the exit code 1.",
        "",
        "## What the script printed here",
        "",
        *(f"    {line}" for line in printed.rstrip().split("\n")),
        "",
        "## Cause",
        "",
        *([f"- {quote(cause.in_words)}" + _fix(cause.fix) for cause in cell.causes] or ["No cause was proved."]),
        "",
        "## Versions",
        "",
        f"- Python {platform.python_version()}, {platform.platform()}",
        *(f"- {package} {_version(package)}" for package in packages),
        "",
        "## Tensors",
        "",
        *(
            f"- {name}: {array.dtype.name}{list(array.shape)}, {_origin(case, name)}"
            for name, array in (script.inputs | script.weights).items()
        ),
    ]
    return "\n".join(lines) + "\n"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _fix(fix: str) -> str:
    return f"; to fix: {quote(fix)}" if fix else ""


def _origin(case: Case, name: str) -> str:
    return quote(case.tensors[name].origin) if name in case.tensors else "the gradient that arrives at the output"


def _version(package: str) -> str:
    for name in (package, f"{package}-gpu"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "of unknown version"
