"""Which models have changed since a revision of git: their files, or what these import beside them."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from ....runtime.errors import UsageError
from ....runtime.visible import visible_name, visible_text
from .finding import CHECK, parse


def changed_models(models: Sequence[str], revision: str) -> set[str]:
    """Return the models of which a file differs from a revision, or isn't known to git.

    The files of a model are its own and those that it imports from its folder or the current one, and these in turn, as
    far as `import` says so in their text.

    Raises:
        UsageError: the current folder isn't in a git repository, or that has no such revision.
    """
    top = Path(_git("rev-parse", "--show-toplevel").strip())
    try:
        _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    except UsageError as error:
        raise UsageError(f"--changed-since: git knows no revision {visible_name(revision)}") from error
    listed = _git("-C", str(top), "diff", "--name-only", "-z", "--end-of-options", revision, "--")
    listed += _git("-C", str(top), "ls-files", "--others", "--exclude-standard", "-z")
    changed = {(top / name).resolve() for name in listed.split("\0") if name}
    return {model for model in models if changed.intersection(files_of(model))}


def files_of(model: str) -> set[Path]:
    """Return the files of a model, as far as they can be seen without running it."""
    files: set[Path] = set()
    waiting = [own_file(model)]
    while waiting:
        file = waiting.pop()
        if file is None or file in files or not file.is_file():
            continue
        files.add(file)
        if file.suffix == ".py":
            waiting += _imported(file)
    return files


def own_file(model: str) -> Path | None:
    """Return the file of a model: of a factory, a case, a check, or its own."""
    path = Path(model)
    if path.is_file():
        return path.resolve()
    if ".py[" in model:
        head = model.partition("[")[0]
    else:
        head = model.partition(CHECK)[0] if CHECK in model else model.rpartition(":")[0]
    if not head:
        return None
    return Path(head).resolve() if head.endswith(".py") else _file_of_module(head.split("."), Path.cwd())


def _file_of_module(parts: Sequence[str], folder: Path) -> Path | None:
    """Return the file of a module in a folder."""
    path = folder.joinpath(*parts)
    candidates = (path.with_suffix(".py"), path / "__init__.py") if parts else (folder / "__init__.py",)
    return next((file.resolve() for file in candidates if file.is_file()), None)


def _imported(file: Path) -> Iterator[Path | None]:
    """Yield the files that a file imports from its folder, from the folders around it that it names, or the current."""
    tree = parse(file)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
            folders = [file.parent, Path.cwd()]
        elif isinstance(node, ast.ImportFrom):
            base = node.module.split(".") if node.module else []
            names = [base, *([*base, alias.name] for alias in node.names)]
            folders = (
                [file.parents[node.level - 1]] if 0 < node.level <= len(file.parents) else [file.parent, Path.cwd()]
            )
        else:
            continue
        for parts in names:
            for folder in folders:
                yield from (_file_of_module(parts[:n], folder) for n in range(1 if parts else 0, len(parts) + 1))


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="surrogateescape",
            check=False,
        )  # fmt: skip
    except OSError as error:
        raise UsageError(f"--changed-since needs git: {error.strerror}") from error
    if done.returncode:
        raise UsageError(f"--changed-since: git says: {visible_text(done.stderr.strip())[:300] or 'it failed'}")
    return done.stdout
