"""`Experiment`: a model whose result is wrong in ONNX Runtime, run again with other settings of the session."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ....runtime.compiled.isolated import IsolatedSession
from ....runtime.compiled.session import SessionError
from ...sides.onnx_models import OnnxModel
from ...sides.records import Array
from ...sides.runtime_model import RuntimeModel
from ...verdicts.deviations import size
from ..budget import NODE, Budget

NOT_OPTIMIZED = 0  # ORT_DISABLE_ALL
LOG_INFO = 1
REPEATS = 3  # runs that must be right
MIN_SECONDS = 1.0  # for one run, so that the last one that is begun can end


@dataclass(frozen=True)
class Expected:
    """A result in float64, and the largest error that passes."""

    array: Array
    bar: float

    def ratio(self, array: Array | None) -> float:
        """The error in units of the bar; infinite for another shape, and for any error where the bar is 0."""
        worst = self._error(array)
        return worst / self.bar if self.bar else math.inf * worst if worst else 0.0

    def relative(self, array: Array | None) -> float:
        """The error relative to the largest element."""
        return self._error(array) / (size(self.array) or 1.0)

    def _error(self, array: Array | None) -> float:
        if array is None or array.shape != self.array.shape:
            return math.inf
        wide, expected = array.astype(np.float64), self.array.astype(np.float64)
        differs = ~((wide == expected) | (np.isnan(wide) & np.isnan(expected)))
        apart = np.abs(wide[differs] - expected[differs])
        return float(np.where(np.isnan(apart), np.inf, apart).max(initial=0.0))


@dataclass(frozen=True)
class Settings:
    """Settings of a session; those that are None or empty are as the side has them.

    Attributes:
        level: the graph optimization level, as a number of ONNX Runtime.
        disabled: names of the optimizers that are left out.
        threads: number of threads that a kernel may use.
        provider: name of the execution provider (`runtime.providers`).
    """

    level: int | None = None
    disabled: tuple[str, ...] = ()
    threads: int | None = None
    provider: str = ""

    @property
    def options(self) -> dict[str, Any]:
        """The attributes of `SessionOptions`."""
        named = {"graph_optimization_level": self.level, "intra_op_num_threads": self.threads}
        return {name: value for name, value in named.items() if value is not None}


DEFAULT = Settings()


class Experiment:
    """Runs a model with several settings, each in a process of its own.

    Args:
        model: the model, its inputs, and how the side runs it.
        expected: the results that are wrong, by the names of outputs.
        budget: the time for the search.
    """

    def __init__(self, model: RuntimeModel, expected: Mapping[str, Expected], budget: Budget) -> None:
        self.model = model
        self.expected = expected
        self.budget = budget
        self._results: dict[Settings, dict[str, Array] | None] = {}

    def is_right(self, settings: Settings) -> bool:
        """Whether the results pass with these settings; false too if the model doesn't run.

        Raises:
            BudgetSpentError: there is no time for it.
        """
        results = self._run(settings)
        return results is not None and all(e.ratio(results.get(name)) <= 1 for name, e in self.expected.items())

    def is_always_right(self, settings: Settings) -> bool:
        """Whether the results pass in several runs: with several threads, a fault may show by chance.

        Raises:
            BudgetSpentError: there is no time for it.
        """
        for _ in range(REPEATS):
            self._results.pop(settings, None)
            if not self.is_right(settings):
                return False
        return True

    def relative(self, settings: Settings) -> float:
        """The largest error that is left with these settings, relative to the largest element."""
        results = self._run(settings) or {}
        return max(e.relative(results.get(name)) for name, e in self.expected.items())

    def _run(self, settings: Settings) -> dict[str, Array] | None:
        """Return the results by name; None if the model doesn't run."""
        if settings not in self._results:
            self._results[settings] = self.run(self.model.model, list(self.expected), settings)
        return self._results[settings]

    def run(self, model: OnnxModel, outputs: Sequence[str], settings: Settings) -> dict[str, Array] | None:
        """Return outputs of a model with the same inputs, by name; None if it doesn't run.

        Raises:
            BudgetSpentError: there is no time for it.
        """
        with self._session(model, settings) as session:
            try:
                results = session.run(self.model.inputs, outputs)
            except SessionError:
                return None
        return {name: items[""] for name, items in results.items() if "" in items}

    def log(self) -> str:
        """Return what ONNX Runtime says about loading the model, with the side's own settings."""
        with self._session(self.model.model, DEFAULT, log_severity_level=LOG_INFO) as session:
            try:
                session.run(self.model.inputs, list(self.expected))
            except SessionError:
                return ""
            return session.printed()

    def save_optimized(self, path: Path) -> bool:
        """Write the model as ONNX Runtime optimizes it with the side's own settings; return whether it did."""
        with self._session(self.model.model, DEFAULT, optimized_model_filepath=str(path)) as session:
            try:
                session.run(self.model.inputs, list(self.expected))
            except SessionError:
                return False
        return path.exists()

    def _session(self, model: OnnxModel, settings: Settings, **options: Any) -> contextlib.closing[IsolatedSession]:
        self.budget.spend(NODE)  # processes are few, and take time rather than work
        provider = settings.provider or self.model.provider
        return contextlib.closing(
            IsolatedSession(
                model,
                provider,
                max(self.budget.seconds_left, MIN_SECONDS),
                options=settings.options | options,
                disabled=settings.disabled,
            )
        )
