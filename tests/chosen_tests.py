"""The plugin that runs only the selected tests of a change, the nearest first."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.selection import Selection


class ChosenTests:
    """Collects the test files of a selection, deselects cases of other ops, and sorts the rest by distance."""

    def __init__(self, selection: Selection) -> None:
        self.selection = selection

    def pytest_report_header(self) -> str:
        return str(self.selection)

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        is_test = collection_path.suffix == ".py" and collection_path.name.startswith("test_")
        return True if is_test and collection_path not in self.selection.distances else None

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        first: dict[tuple[Path, str, str], object] = {}

        def is_chosen(item: pytest.Item) -> bool:
            case = item.callspec.params.get("case") if hasattr(item, "callspec") else None
            if item.path not in self.selection.sampled or not hasattr(case, "op"):
                return True
            if self.selection.ops:
                return case.op in self.selection.ops
            return first.setdefault((item.path, item.originalname, case.op), case) is case

        selected = {item: is_chosen(item) for item in items}
        config.hook.pytest_deselected(items=[item for item in items if not selected[item]])
        rank = {path: i for i, path in enumerate(self.selection.distances)}
        items[:] = sorted((item for item in items if selected[item]), key=lambda item: rank[item.path])
