"""Output files: written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes the place of `path` when the context ends well, else vanishes; `OSError`s pass."""
    with whole_files([path]) as (file,):
        yield file


@contextlib.contextmanager
def whole_files(paths: Sequence[Path]) -> Iterator[list[IO[bytes]]]:
    """Files that take the places of `paths` together when the context ends well, else vanish; `OSError`s pass."""
    for path in paths:
        if not path.name:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    temporary = [path.with_name(f".{path.name}.{os.getpid()}") for path in paths]
    try:
        with contextlib.ExitStack() as stack:
            yield [stack.enter_context(path.open("wb")) for path in temporary]
        put_in_place(temporary, paths)
    finally:
        for path in temporary:
            path.unlink(missing_ok=True)


def put_in_place(files: Sequence[Path], targets: Sequence[Path]) -> None:
    """Move files to where they belong, the last one at last; if one can't be moved, all targets are as they were."""
    moved: list[tuple[Path, Path | None]] = []
    try:
        for file, target in list(zip(files, targets, strict=True))[:-1]:
            old = target.with_name(f".{target.name}.{os.getpid()}.old") if target.exists() else None
            moved.append((target, old))
            if old is not None:
                target.replace(old)
            file.replace(target)
        files[-1].replace(targets[-1])
    except BaseException:
        for target, old in moved:
            if old is None:
                target.unlink(missing_ok=True)
            elif old.exists():
                old.replace(target)
        raise
    for _, old in moved:
        if old is not None:
            old.unlink(missing_ok=True)
