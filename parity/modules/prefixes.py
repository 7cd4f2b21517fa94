"""Names of a torch module inside a wrapper: `module.head` for `head`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from ...converter.structure.program_names import NAMES, ProgramNames
from ..results.structure import PREFIX, StructureDifference

WRAPPER = "wrapper "
"""What the names of the candidate's wrappers start with, so that they differ from those of the modules inside."""


@dataclass(frozen=True)
class Prefixes:
    """What all names of each side but those of the wrappers start with, though those of the other side don't.

    Attributes:
        reference: path of the module in the reference that has the names of the candidate's; empty for the root.
        candidate: the same in the candidate.
    """

    reference: str = ""
    candidate: str = ""

    @classmethod
    def between(cls, reference: torch.nn.Module, candidate: torch.nn.Module) -> Prefixes:
        """Return the prefixes with which most names are equal; none unless they make more names equal."""
        if NAMES in vars(reference) or NAMES in vars(candidate):
            return cls()  # made from a program, which has the names
        there, here = _names(reference), _names(candidate)
        pairs = [cls(one, other) for one in _wrapped(reference) for other in _wrapped(candidate)]
        renamed = [(pair, {pair.rename(name) for name in here}) for pair in pairs]
        unique = [(pair, names) for pair, names in renamed if len(names) == len(here)]
        return max(unique, key=lambda one: len(there & one[1]))[0]

    def rename(self, name: str) -> str:
        """Return the reference's name for a name of the candidate."""
        if self.reference and name and name == self.candidate:
            return self.reference
        if name and _dotted(self.candidate).startswith(f"{name}."):
            return f"{WRAPPER}{name}"
        if not name.startswith(_dotted(self.candidate)) or not name:
            return name
        return _dotted(self.reference) + name.removeprefix(_dotted(self.candidate))

    def is_wrapper(self, path: str) -> bool:
        """Whether a path is that of a wrapper, which only one side has."""
        return path.startswith(WRAPPER) or _dotted(self.reference).startswith(f"{path}.")

    @contextlib.contextmanager
    def applied(self, candidate: torch.nn.Module) -> Iterator[None]:
        """Within the context, the candidate has the reference's names."""
        if self == Prefixes():
            yield
            return
        paths = [path for path, _ in candidate.named_modules()]
        tensors = [name for name, _ in candidate.named_parameters(remove_duplicate=False)]
        tensors += [name for name, _ in candidate.named_buffers(remove_duplicate=False)]
        vars(candidate)[NAMES] = ProgramNames(
            cells={path: self.rename(path) for path in paths}, tensors={name: self.rename(name) for name in tensors}
        )
        try:
            yield
        finally:
            del vars(candidate)[NAMES]

    def differences(self) -> list[StructureDifference]:
        """Return the difference in structure, if there is one."""
        if self == Prefixes():
            return []
        named = {"reference": self.reference, "candidate": self.candidate}
        texts = [f"names of the {side} without {_dotted(path)}" for side, path in named.items() if path]
        text = f"the two are paired by the {' and the '.join(texts)}"
        return [StructureDifference(PREFIX, _dotted(self.candidate or self.reference), "", text)]


def _names(module: torch.nn.Module) -> set[str]:
    return {path for path, _ in module.named_modules()} | set(module.state_dict(keep_vars=True))


def _wrapped(module: torch.nn.Module) -> Iterator[str]:
    """Yield the path of the root, and those of the modules that are alone in the one before."""
    path = ""
    while True:
        yield path
        children = [(name, child) for name, child in module._modules.items() if child is not None]
        if len(children) != 1:
            return
        ((name, module),) = children
        path = f"{_dotted(path)}{name}"


def _dotted(path: str) -> str:
    return f"{path}." if path else ""
