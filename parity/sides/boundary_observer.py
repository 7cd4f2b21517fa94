"""`BoundaryObserver`: records the value at each boundary node of a program, or replaces it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...runtime.ir.types import Node, Value
from .boundary_keys import BoundaryKeys
from .feeding import feed_value_like
from .records import Array, Key, Records
from .replay import Replay


class BoundaryObserver:
    """Records the value at each boundary node, or replaces it."""

    def __init__(self, keys: BoundaryKeys, records: Records) -> None:
        self.keys = keys
        self.run = keys.run
        self.records = records
        self.producers = keys.program.producers
        self.source_lines: dict[Node, str] = keys.program.__dict__.setdefault("_source_lines", {})
        self.replay = Replay(keys.run)
        self._fed: dict[tuple[int, np.dtype[Any]], tuple[Array, Array]] = {}

    def __call__(self, node: Node, array: Array) -> Array:
        """Return what replaces a value at a boundary."""
        if self.is_passed_on(node):
            return array
        keys = self.keys.keys(node)
        key = keys[0]
        if key.kind == "parameter_gradient":
            self.records.gradients.add_share(key.slot, key.path, array)
        if key.kind in ("parameter", "parameter_gradient"):
            return array
        array = self.replay.value(key, array)
        if self.run.wanted.inner or not key.path:
            for boundary_key in keys:
                if self.run.wanted.passes is None or not self.run.wanted.passes(boundary_key, array):
                    self.records.add(boundary_key, array)
                self.records.boundaries.sources[boundary_key] = self._source_line(node)
            array = self._feed_or_keep(key, array)
        return self.replay.gradient(key, array)

    def _feed_or_keep(self, key: Key, array: Array) -> Array:
        """Return the value to feed; values at several boundaries that are one array are converted once."""
        value = feed_value_like(self.run.feed, key, array)
        if value is None:
            return array
        identity = id(value), array.dtype
        if identity not in self._fed:
            self._fed[identity] = value, value.astype(array.dtype, copy=False)
        return self._fed[identity][1]

    def is_passed_on(self, node: Node) -> bool:
        """Whether nothing is recorded or replaced at a boundary."""
        attributes, run = node.attributes, self.run
        if run.wanted.inner or run.reference.choices or attributes["kind"] == "parameter_gradient":
            return False
        return self.keys.program.calls[attributes["call"]].path != ""

    def _source_line(self, node: Node) -> str:
        """The source line of the op that computed the value at the boundary, looked up once for all runs."""
        line = self.source_lines.get(node)
        if line is None:
            line = self.source_lines[node] = self._look_up_source(node)
        return line

    def _look_up_source(self, node: Node) -> str:
        """The source line of the op that computed the value at the boundary."""
        value: Value | None = node.inputs[0]
        producer = self.producers.get(value) if value is not None else None
        while producer is not None and producer.op == "boundary":
            node, value = producer, producer.inputs[0]
            producer = self.producers.get(value) if value is not None else None
        source = (producer or node).source
        return str(source) if source is not None else ""
