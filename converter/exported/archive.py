"""`.pt2` files, which `torch.export.save` writes, from people who needn't be trusted."""

from __future__ import annotations

import io
import json
import logging
import math
import pickle
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch.export.pt2_archive import _package
from torch.export.pt2_archive.constants import AOTINDUCTOR_DIR, CONSTANTS_DIR, MODELS_DIR, WEIGHTS_DIR

from ...runtime.errors import UsageError
from .archive_checks import check_model

MODEL = f"{MODELS_DIR}model.json"
PAYLOADS = {
    WEIGHTS_DIR: f"{WEIGHTS_DIR}model_weights_config.json",
    CONSTANTS_DIR: f"{CONSTANTS_DIR}model_constants_config.json",
}
TENSOR = ("weight_", "tensor_")
"""Beginnings of the names of payloads that are tensors; others are objects of a class that the file names."""
MAX_EXPANDED = 2**24
"""The most elements of a tensor that may have fewer bytes, as one that was expanded has."""
_DAMAGED = (
    RuntimeError,
    EOFError,
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    AssertionError,
    RecursionError,
)


def read_archive(path: str | PathLike[str]) -> torch.export.ExportedProgram:
    """Read the program of a `.pt2` file; nothing in the file is run or imported.

    `torch.export.load` alone would unpickle parts of it, and evaluate others (see `archive_checks`). The guards that it
    holds, which are Python, are left out.

    Raises:
        UsageError: it isn't such a file, is damaged, or has a part that `torch.export.save` doesn't write, or that is
            pickled and holds more than tensors and plain containers.
    """
    path = Path(path)
    log = logging.getLogger("torch")
    level = log.level
    log.setLevel(logging.CRITICAL)  # torch logs the traceback of what it then raises
    try:
        with path.open("rb") as file, _package.PT2ArchiveReader(file) as archive:
            _check_archive(archive, path)
        # not torch.export.load, which reads other entries of the file if these fail
        program = _package.load_pt2(str(path)).exported_programs["model"]
    except UsageError as error:
        raise UsageError(f"{path} can't be read: {error}") from error
    except _DAMAGED as error:
        reason = str(error).strip().partition("\n")[0]
        raise UsageError(
            f"{path} can't be read as a program of torch.export ({type(error).__name__}: {reason})\n"
            f"  what to do: write it again with torch.export.save(program, path), in torch {torch.__version__}"
        ) from error
    finally:
        log.setLevel(level)
    vars(program)["_guards_code"] = []
    return program


def _check_archive(archive: Any, path: Path) -> None:
    names = archive.get_file_names()
    sizes = {name: archive.archive_file.get_record_size(name) for name in names}
    if sum(sizes.values()) > path.stat().st_size:
        raise UsageError("its parts are larger than the file, which torch.export.save doesn't compress")
    if any(name.startswith(AOTINDUCTOR_DIR) for name in names):
        raise UsageError("it holds compiled libraries (AOTInductor), which are run as they are and can't be judged")
    if [name for name in names if name.startswith(MODELS_DIR)] != [MODEL]:
        raise UsageError("it doesn't hold one program, called `model`, as torch.export.save writes it")
    check_model(json.loads(archive.read_string(MODEL)))
    pickled = [name for name in names if name.endswith(".pt")]  # inputs of the export; weights in older files
    for folder, file in PAYLOADS.items():
        for payload in json.loads(archive.read_string(file))["config"].values():
            name = folder + payload["path_name"]
            if not payload["path_name"].startswith(TENSOR):
                raise UsageError(
                    "it holds objects of other classes than tensors, which may run any code when they are read"
                )
            if payload["use_pickle"]:
                pickled.append(name)
            elif math.prod(_numbers(payload["tensor_meta"]["sizes"])) > max(sizes[name], MAX_EXPANDED):
                raise UsageError(f"{name} in it has more elements than bytes")
    for name in dict.fromkeys(pickled):
        try:
            torch.load(io.BytesIO(archive.read_bytes(name)), weights_only=True)
        except pickle.UnpicklingError as error:
            raise UsageError(
                f"{name} in it is pickled, with more than tensors and plain containers: reading that may run any code"
            ) from error


def _numbers(sizes: list[dict[str, Any]]) -> Iterator[int]:
    for size in sizes:
        yield int(size["as_int"])
