"""Selects the tests of a change: `pytest --changed` runs the tests nearest to the changed files first.

The distance of a test file from a changed file is the number of imports between them. Decorators register functions in
tables: any file that loads the package of a table can call them. There, the nearest test files are those that mention
rare names (`segment_reduce`). Tests run in the order of their distance, up to a budget of processor seconds.
`costs.json` has the seconds of each test file; `pytest --record-costs` measures them again.
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
RARE = 0.5  # a word weighs 1 / (test files that mention it); a file with at least this sum is near
OP_FAMILIES = "runtime/ops"
ALL_OPS = "tests/runtime/ops/test_all_ops.py"
SAMPLE = 0.2  # share of the cases of ops if only the first of each is run
END_TO_END = ("tests/test_architecture.py", "tests/runtime/golden/test_golden_cases.py", "tests/parity/test_models.py")


def changed_files(root: Path, base: str = "") -> list[Path]:
    """Return files that differ from a commit, by default the branch point from main, and untracked files."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True).stdout

    since = base or git("merge-base", "main", "HEAD").strip()
    names = git("diff", "--name-only", "-z", since) + git("ls-files", "--others", "--exclude-standard", "-z")
    return [root / name for name in names.split("\0") if name]


@dataclass
class Selection:
    """The tests of a change.

    Attributes:
        distances: distances of the test files to run.
        not_selected: distances of the test files that the change reaches, but the budget doesn't allow.
        ops: names of the ops whose cases are run; if empty, the first case of each op.
        sampled: test files of which only some cases of ops are run.
        seconds: processor seconds that the tests took when they were measured.
    """

    distances: dict[Path, int]
    not_selected: dict[Path, int]
    ops: frozenset[str]
    sampled: set[Path]
    seconds: float

    def __str__(self) -> str:
        cases = f"the cases of {len(self.ops)} ops" if self.ops else "one case of each op"
        rest = f"; farther away, left to the whole suite: {len(self.not_selected)}" if self.not_selected else ""
        return f"tests of the change: {len(self.distances)} files, {cases}, about {self.seconds:.0f} s{rest}"


class Selector:
    """Selects tests in one state of the repository."""

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
        """For each package, the files that import the package itself."""
        result: dict[tuple[str, ...], set[Path]] = {}
        for path, source in self.sources.items():
            for name in source.bound.values():
                result.setdefault(name, set()).add(path)
        return result

    def users(self, path: Path) -> set[Path]:
        """Return the files that are one import away from a file."""
        source = self.sources[path]
        result = set(self.graph.used_by[path])
        if path.name == "conftest.py":
            result |= {test for test in self.tests if path.parent in test.parents}
        if source.is_package:
            result |= self._loaders.get(source.module, set())
        elif source.registered and source.module[:-1] in self.graph.sources:
            result.add(self.graph.sources[source.module[:-1]].path)
        return result

    def distances(self, changed: Iterable[Path]) -> dict[Path, int]:
        """Return the number of imports between each reachable test file and the nearest changed file."""
        front = {path for path in changed if path in self.sources}
        result = dict.fromkeys(front, 0) | {test: 1 for path in front for test in self._namesakes(path)}
        step = 0
        while front:
            step += 1
            front = {user for path in front for user in self.users(path)} - {p for p, d in result.items() if d < step}
            result |= dict.fromkeys(front - result.keys(), step)
            front = {path for path in front if result[path] == step}
        return {path: distance for path, distance in result.items() if self._is_test(path)}

    def _namesakes(self, path: Path) -> list[Path]:
        """Return the test files that mention rare names which a file registers in a table, or that share its name."""
        names = self.sources[path].registered
        return [
            test
            for test in self.tests
            if path.stem in test.stem.split("test_", 1)[1]
            or sum(1 / self._mentions[word] for word in names & self.sources[test].words) >= RARE
        ]

    def ops(self, changed: Iterable[Path]) -> frozenset[str]:
        """Return the ops declared in the changed files, or in their users if they declare none."""
        families = {path for path in self.sources if self.root / OP_FAMILIES in path.parents}
        result: set[str] = set()
        for path in changed:
            front, visited = {path} & families, {path}
            while front and not any(self.sources[family].registered for family in front):
                front = {user for family in front for user in self.graph.used_by[family]} & families - visited
                visited |= front
            result |= set().union(*(self.sources[family].defined for family in front))
        return frozenset(result)

    @cached_property
    def of_cases(self) -> set[Path]:
        """Test files that run the table of cases of ops."""
        table = self.root / ALL_OPS
        return {table} | {user for user in self.graph.used_by.get(table, ()) if self._is_test(user)}

    def select(self, changed: Iterable[Path], budget: float = BUDGET) -> Selection:
        """Select the nearest tests of a change, as many as the budget allows, and all changed test files."""
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

        selected, not_selected, spent = {}, {}, 0.0
        for path in sorted(distances, key=nearness):
            if distances[path] == 0 or spent + costs[path] <= budget:
                selected[path], spent = distances[path], spent + costs[path]
            else:
                not_selected[path] = distances[path]
        return Selection(selected, not_selected, ops, sampled, spent)

    def _cost(self, path: Path) -> float:
        return self.costs.get(path.relative_to(self.root).as_posix(), UNMEASURED)
