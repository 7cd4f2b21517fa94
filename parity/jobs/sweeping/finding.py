"""`find_models`: the models that a sweep is to judge, one by one, as `parity run` takes them."""

from __future__ import annotations

import ast
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from ....runtime.errors import UsageError
from ....runtime.visible import visible_name, visible_text
from ...inputs.generated_cases import CASES, CHECKS
from ...inputs.user_source import no_such_file
from ...sides.kinds import LIBRARY_MODEL, PROGRAMS
from .limits import Limits, run_limited

LISTING = Limits(seconds=300.0, memory=2**34, threads=1)
"""What a process may take that lists the models of a file or package."""
CHECK = "::"
"""Between the file and the name of a check."""
_PATTERN = re.compile(r"[*?\[]")


def find_models(sources: Iterable[str]) -> list[str]:
    """Return the models that are meant, each once, in the order in which they are given.

    Args:
        given: a model file, an ONNX file, a program of torch.export (.pt2); a folder, whose files of these kinds are
            meant, inner ones too; a model of a library by its name, as `timm:resnet18`;
            `model.py:factory` or `package.module:factory`, in which `*` and `?` of the factory stand for any text;
            a file that defines `cases()`, or `checks()`, each of which is then `file.py::name`.

    Raises:
        UsageError: there is nothing of a name, or its models can't be listed.
    """
    all_models: list[str] = []
    for source in sources:
        models = list(_models(source))
        if not models:
            raise UsageError(f"there is no model in {visible_name(source)}: a model file defines model and inputs")
        all_models += models
    return list(dict.fromkeys(all_models))


def _models(source: str) -> Iterator[str]:
    path = Path(source)
    if path.is_dir():
        for file in sorted(
            file for file in path.rglob("*") if file.suffix in (".py", ".onnx", *PROGRAMS) and file.is_file()
        ):
            if any(part.startswith((".", "__pycache__")) for part in file.relative_to(path).parts):
                continue
            names = _defined_names(file) if file.suffix == ".py" else None
            if names is None or {"model", "inputs"} <= names:
                yield str(file)
            elif names & {CASES, CHECKS}:
                yield from _listed(str(file), "")
        return
    if source.endswith(("/", os.sep)):
        raise UsageError(f"no such folder: {visible_name(source)}")
    head, _, factory = source.rpartition(":")
    if CHECK in source or LIBRARY_MODEL.fullmatch(source):
        yield source
    elif head and _PATTERN.search(factory):
        yield from _listed(head, factory)
    elif path.suffix == ".py" and path.is_file() and (names := _defined_names(path)) and _has_cases(names):
        yield from _listed(source, "")
    elif ":" not in source and not path.exists():
        raise UsageError(no_such_file(path, (".py", ".onnx")))
    else:
        yield source


def _has_cases(names: set[str]) -> bool:
    """Whether a file that is given lists its models; in a model file, `checks` may be anything."""
    return CASES in names or (CHECKS in names and not {"model", "inputs"} <= names)


def _defined_names(file: Path) -> set[str] | None:
    """Return the names that a Python file defines or imports, as far as they can be seen without running it.

    None if it isn't Python: then `parity run` says what is wrong.
    """
    tree = parse(file)
    if tree is None:
        return None
    names: set[str] = set()
    for statement in tree.body:
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            names.add(statement.name)
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            names |= {alias.asname or alias.name for alias in statement.names}
        else:
            names |= {
                node.id
                for node in ast.walk(statement)
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            }
    return names


def _listed(source: str, pattern: str) -> list[str]:
    """Return the models that a file or package lists; it is run in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "models.json"
        ended = run_limited([sys.executable, "-m", f"{__package__}.listing", str(answer), source, pattern], LISTING)
        if ended.code == 0 and answer.exists():
            return [str(model) for model in json.loads(answer.read_text(encoding="utf-8"))]
    reason = visible_text(ended.output.strip())[-2000:] or f"its process ended with exit code {ended.code}"
    reason = f"it took more than {LISTING.seconds:g} s" if ended.stopped == "time" else reason
    raise UsageError(f"the models of {visible_name(source)} can't be listed: {reason}")


def parse(file: Path) -> ast.Module | None:
    """Return the syntax tree of a file; None if it can't be read, or isn't Python."""
    try:
        return ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
