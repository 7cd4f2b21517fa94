"""What a network is that is given to be compared; of a path, by its name and by what is there."""

from __future__ import annotations

import os
import re
from enum import Enum
from os import PathLike
from pathlib import Path


class Kind(Enum):
    """What a network is."""

    MODULE = "a torch module"
    PROGRAM = "a program"
    CELL = "a Cell"
    JAX = "a network in JAX"
    RECORDING = "a recording"
    MODEL_FILE = "a model file"
    ONNX_FILE = "an ONNX file"
    ONNX_MODEL = "an ONNX model"
    WEIGHTS = "a file of weights"
    UNKNOWN = "something else"


ONNX = frozenset({Kind.ONNX_FILE, Kind.ONNX_MODEL})
IN_FILES = ONNX | {Kind.RECORDING}
"""Kinds that aren't run as code: a path, or a model that was read from one."""
NETWORKS = frozenset({Kind.MODULE, Kind.CELL, Kind.JAX, Kind.PROGRAM, Kind.ONNX_MODEL})
"""Kinds of objects that are networks, which are never their inputs."""
PATHS = frozenset({Kind.RECORDING, Kind.MODEL_FILE, Kind.ONNX_FILE, Kind.WEIGHTS})

PROGRAMS = (".pt2",)
"""Endings of programs of `torch.export`, which are taken as model files are."""
PICKLES = (".pt", ".pth", ".ts", ".torchscript")
"""Endings of other files of torch, which only a model file can read."""
WEIGHTS = (".safetensors", ".ckpt")
"""Endings of files that hold weights alone."""
LIBRARY_MODEL = re.compile(r"(timm|hf):([^?]+)(?:\?(.*))?", re.DOTALL)
"""A model of a library by its name: the library, the name, and settings."""
CASE = re.compile(r"(.*\.py)\[(.*)\]", re.DOTALL)
"""A file and the name of one of its cases."""


def kind_of_path(path: str | PathLike[str]) -> Kind:
    """Return what a path names: a recording, a model file, a file of weights or an ONNX file.

    A model file is `path/model.py`, `path/model.py:factory`, `path/cases.py[case]`, `package.module:factory`,
    `timm:resnet18`, `hf:BertModel?hidden_size=128`, or `path/program.pt2`. What isn't a folder either is an ONNX file,
    whatever its name, whether it is there or not.
    """
    name = os.fspath(path)
    if os.path.isdir(name):
        return Kind.RECORDING
    file = file_of(name)
    has_factory = file != name and not os.path.exists(name)
    is_name = has_factory or LIBRARY_MODEL.fullmatch(name) or CASE.fullmatch(name)
    is_code = is_name or Path(file).suffix.lower() in (".py", *PROGRAMS, *PICKLES)
    if is_code:
        return Kind.MODEL_FILE
    return Kind.WEIGHTS if Path(name).suffix.lower() in WEIGHTS else Kind.ONNX_FILE


def is_of_its_name(path: str | PathLike[str]) -> bool:
    """Whether a file's name says that it is what `kind_of_path` returns; else it may hold anything."""
    suffix = Path(file_of(os.fspath(path))).suffix.lower()
    return suffix == ".onnx" if kind_of_path(path) is Kind.ONNX_FILE else suffix not in PICKLES


def file_of(model: str) -> str:
    """The file of `path/model.py:factory`."""
    head, _, factory = model.rpartition(":")
    return head if head and factory.isidentifier() else model
