"""Chooses the tests of a change: `pytest --changed` runs those that the changed files reach first.

The distance of a test file from a changed file is the number of imports between them. Decorators register functions in
tables: whoever loads the package of a table can call them. There, the nearest test files are those that mention names
which few others mention (`segment_reduce`). Tests run in the order of their distance, up to a budget in seconds of
processor. `costs.json` has the seconds of each test file; `pytest --record-costs` measures them anew. The first numbers
outside tests/converter are estimates: ten times what every tenth test took.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.imports import ImportGraph

COSTS = Path(__file__).with_name("costs.json")
UNMEASURED = 5.0  # seconds for a test file that isn't in `costs.json`
BUDGET = 240.0  # seconds of processor: two minutes on two cores
RARE = 0.5  # a word weighs 1 / (test files that mention it); together they make a file near
OP_FAMILIES = "runtime/ops"
ALL_OPS = "tests/runtime/ops/test_all_ops.py"
SAMPLE = 0.2  # of the cases of ops, where only the first of each is run
END_TO_END = ("tests/test_architecture.py", "tests/runtime/golden/test_golden_cases.py", "tests/parity/test_models.py")


def changed_files(root: Path, base: str = "") -> list[Path]:
    """What differs from a commit, by default from where the branch left main, and files that git doesn't know yet."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True).stdout

    since = base or git("merge-base", "main", "HEAD").strip()
    names = git("diff", "--name-only", "-z", since) + git("ls-files", "--others", "--exclude-standard", "-z")
    return [root / name for name in names.split("\0") if name]


@dataclass
class Selection:
    """The tests of a change.

    Attributes:
        distances: of the test files that are run.
        left_out: of those that the change reaches but the budget doesn't.
        ops: the names of the ops whose cases are run; without any, the first case of each op is.
        sampled: the test files of which only some cases of ops are run.
        seconds: of processor, that the tests took when they were measured.
    """

    distances: dict[Path, int]
    left_out: dict[Path, int]
    ops: frozenset[str]
    sampled: set[Path]
    seconds: float

    def __str__(self) -> str:
        cases = f"the cases of {len(self.ops)} ops" if self.ops else "one case of each op"
        rest = f"; farther away, left to the whole suite: {len(self.left_out)}" if self.left_out else ""
        return f"tests of the change: {len(self.distances)} files, {cases}, about {self.seconds:.0f} s{rest}"


class Selector:
    """Chooses tests in one state of the repository."""

    def __init__(self, root: Path, costs: dict[str, float] | None = None) -> None:
        self.root = root
        self.costs = json.loads(COSTS.read_text()) if costs is None else costs
        self.graph = ImportGraph(root)
        self.sources = {source.path: source for source in self.graph.sources.values()}
        self.tests = [path for path in self.sources if self._is_test(path)]

    def _is_test(self, path: Path) -> bool:
        return path.name.startswith("test_") and self.root / "tests" in path.parents

    @cached_property
    def _mentions(self) -> Counter[str]:
        return Counter(word for path in self.tests for word in self.sources[path].words)

    @cached_property
    def _loaders(self) -> dict[tuple[str, ...], set[Path]]:
        """For each package, the files that load it as such."""
        found: dict[tuple[str, ...], set[Path]] = {}
        for path, source in self.sources.items():
            for name in source.bound.values():
                found.setdefault(name, set()).add(path)
        return found

    def users(self, path: Path) -> set[Path]:
        """The files that are one import away from a file."""
        source = self.sources[path]
        found = set(self.graph.used_by[path])
        if path.name == "conftest.py":
            found |= {test for test in self.tests if path.parent in test.parents}
        if source.is_package:
            found |= self._loaders.get(source.module, set())
        elif source.registered and source.module[:-1] in self.graph.sources:
            found.add(self.graph.sources[source.module[:-1]].path)
        return found

    def distances(self, changed: Iterable[Path]) -> dict[Path, int]:
        """The imports between each test file that is reached and the nearest changed file."""
        front = {path for path in changed if path in self.sources}
        found = dict.fromkeys(front, 0) | {test: 1 for path in front for test in self._namesakes(path)}
        step = 0
        while front:
            step += 1
            front = {user for path in front for user in self.users(path)} - {p for p, d in found.items() if d < step}
            found |= dict.fromkeys(front - found.keys(), step)
            front = {path for path in front if found[path] == step}
        return {path: distance for path, distance in found.items() if self._is_test(path)}

    def _namesakes(self, path: Path) -> list[Path]:
        """The test files that mention rare names which a file registers in a table, or have its name."""
        names = self.sources[path].registered
        return [
            test
            for test in self.tests
            if path.stem in test.stem.split("test_", 1)[1]
            or sum(1 / self._mentions[word] for word in names & self.sources[test].words) >= RARE
        ]

    def ops(self, changed: Iterable[Path]) -> frozenset[str]:
        """The ops that are declared in the changed files, or in those that use them where they declare none."""
        families = {path for path in self.sources if self.root / OP_FAMILIES in path.parents}
        found: set[str] = set()
        for path in changed:
            front, seen = {path} & families, {path}
            while front and not any(self.sources[family].registered for family in front):
                front = {user for family in front for user in self.graph.used_by[family]} & families - seen
                seen |= front
            found |= set().union(*(self.sources[family].defined for family in front))
        return frozenset(found)

    @cached_property
    def of_cases(self) -> set[Path]:
        """The test files that run the table of cases of ops."""
        table = self.root / ALL_OPS
        return {table} | {user for user in self.graph.used_by.get(table, ()) if self._is_test(user)}

    def select(self, changed: Iterable[Path], budget: float = BUDGET) -> Selection:
        """The nearest tests of a change, as many as the budget allows; those that changed themselves in any case."""
        changed = [path for path in changed if path in self.sources]
        ops = self.ops(changed)
        distances = {self.root / name: 1 for name in END_TO_END} | self.distances(changed)
        sampled = self.of_cases - set(changed)
        if ops:
            distances |= dict.fromkeys(sampled, 1)
        every = len(self.ops(path for path in self.sources if self.root / OP_FAMILIES in path.parents))
        share = len(ops) / every if ops else SAMPLE
        rooms = {path.relative_to(self.root).parts[0] for path in changed}
        costs = {path: self._cost(path) * (share if path in sampled else 1) for path in distances}

        def nearness(path: Path) -> tuple[int, bool, bool, float, Path]:
            elsewhere = path.relative_to(self.root).parts[1] not in rooms
            return distances[path], path != self.root / ALL_OPS, elsewhere, costs[path], path

        chosen, left_out, spent = {}, {}, 0.0
        for path in sorted(distances, key=nearness):
            if distances[path] == 0 or spent + costs[path] <= budget:
                chosen[path], spent = distances[path], spent + costs[path]
            else:
                left_out[path] = distances[path]
        return Selection(chosen, left_out, ops, sampled, spent)

    def _cost(self, path: Path) -> float:
        return self.costs.get(path.relative_to(self.root).as_posix(), UNMEASURED)
