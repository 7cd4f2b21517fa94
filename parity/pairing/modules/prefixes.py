"""Names of one torch module in another: those inside a wrapper (`module.head` for `head`), and those that are given."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import torch

from ....converter.structure.program_names import NAMES, ProgramNames
from ....runtime.errors import UsageError
from ...correspondence.name_patterns import fill_cells
from ...results.structure import PREFIX, StructureDifference

WRAPPER = "wrapper "
"""What the names of the candidate's wrappers start with, so that they differ from those of the modules inside."""


@dataclass(frozen=True)
class Prefixes:
    """What all names of each side but those of the wrappers start with, though those of the other side don't.

    Attributes:
        reference: path of the module in the reference that has the names of the candidate's; empty for the root.
        candidate: the same in the candidate.
        given: paths in the reference by paths in the candidate, as the user gives them, without `*`.
    """

    reference: str = ""
    candidate: str = ""
    given: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def between(
        cls, reference: torch.nn.Module, candidate: torch.nn.Module, given: Mapping[str, str] | None = None
    ) -> Prefixes:
        """Return the prefixes with which most names are equal; none unless they make more names equal.

        Raises:
            UsageError: a path that is given doesn't exist, or two get the same name.
        """
        paths = ([path for path, _ in module.named_modules()] for module in (candidate, reference))
        given = fill_cells(given or {}, *paths)
        _require_known(reference, candidate, given)
        if NAMES in vars(reference) or NAMES in vars(candidate):
            return cls()  # made from a program, which has the names
        reference_names, candidate_names = _names(reference), _names(candidate)
        pairs = [
            cls(reference_path, candidate_path, given)
            for reference_path in _wrapped(reference)
            for candidate_path in _wrapped(candidate)
        ]
        renamed = [(pair, {pair.rename(name) for name in candidate_names}) for pair in pairs]
        unique = [(pair, names) for pair, names in renamed if len(names) == len(candidate_names)]
        if not unique:
            twice = [path for path, count in Counter(given.values()).items() if count > 1]
            which = f": {', '.join(path for path in given if given[path] == twice[0])} are {twice[0]}" if twice else ""
            raise UsageError(f"cells= gives two Cells of the candidate the same name{which}")
        return max(unique, key=lambda pair_and_names: len(reference_names & pair_and_names[1]))[0]

    def rename(self, name: str) -> str:
        """Return the reference's name for a name of the candidate."""
        for path in sorted(self.given, key=len, reverse=True):
            if f"{name}.".startswith(f"{path}."):
                return self.given[path] + name.removeprefix(path)
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
        if not (self.reference or self.candidate or self.given):
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
        if not (self.reference or self.candidate):
            return []
        named = {"reference": self.reference, "candidate": self.candidate}
        texts = [f"names of the {side} without {_dotted(path)!r}" for side, path in named.items() if path]
        text = f"the two are paired by the {' and the '.join(texts)}"
        return [StructureDifference(PREFIX, _dotted(self.candidate or self.reference), "", text)]


def _require_known(reference: torch.nn.Module, candidate: torch.nn.Module, given: Mapping[str, str]) -> None:
    """Raise `UsageError` unless the modules have the Cells that are given."""
    if given and NAMES in {*vars(reference), *vars(candidate)}:
        raise UsageError("cells= isn't for modules that were made from a program, which has the names")
    for name, module, paths in (("candidate", candidate, given.keys()), ("reference", reference, given.values())):
        known = {path for path, _ in module.named_modules()}
        if unknown := [path for path in paths if not path or path not in known]:
            raise UsageError(f"cells= names {unknown[0]!r}, which isn't a Cell inside the {name}")


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
