"""The Cells of an imported model, read from the metadata of its nodes, or else from their names."""

from __future__ import annotations

import ast
import re

from onnx import NodeProto

from ....runtime.ir.types import CellCall
from ....runtime.lowering.graph import CELL

SCOPES = "pkg.torch.onnx.name_scopes"  # torch.onnx: qualified names of the modules around a node, then its own name
CLASSES = "pkg.torch.onnx.class_hierarchy"  # torch.onnx: the classes of those modules, then the operator
NO_SCOPE = "_empty_nn_module_stack_from_metadata_hook"  # torch: the scope of nodes that a pass inserted
MAX_TEXT_LENGTH = 2**16  # characters of metadata that are read
MAX_DEPTH = 256  # nested Cells; a name with more parts isn't a path
_CALL = re.compile(r"^(?P<path>.*?)(@(?P<index>[0-9]{1,9}))?$", re.DOTALL)


class CellPaths:
    """Collects the Cell calls that nodes belong to, parents before children."""

    def __init__(self, root: str, calls: list[CellCall] | None = None) -> None:
        """Start with the calls in the model's metadata, or with the root alone, whose class name is `root`."""
        self.calls = calls or [CellCall("", root)]
        self._numbers = {(call.path, call.index): number for number, call in enumerate(self.calls)}

    def path(self, number: int) -> str:
        """The path of a call."""
        return self.calls[number].path

    def call_of(self, node: NodeProto, default: int) -> int:
        """The number of the call that a node belongs to; `default` if neither metadata nor name tells."""
        metadata = {entry.key: entry.value for entry in node.metadata_props}
        if CELL in metadata:
            match = _CALL.match(metadata[CELL])
            assert match is not None, "the pattern matches any text"
            return self._enter(match["path"], int(match["index"] or 0), {})
        scopes, classes = _parse_list(metadata.get(SCOPES, "")), _parse_list(metadata.get(CLASSES, ""))
        if scopes:
            names = [scope for scope in scopes[:-1] if scope and scope != NO_SCOPE]
            pairs = zip(scopes, classes, strict=False)
            kinds = {scope: kind.rsplit(".", 1)[-1] for scope, kind in pairs}
            return self._enter(names[-1], 0, kinds) if names else default
        parts = [part for part in node.name.split("/")[:-1] if part]
        if node.name.startswith("/") and parts:
            return self._enter(".".join(_strip_repetition(parts)), 0, {})
        return default

    def _enter(self, path: str, index: int, classes: dict[str, str]) -> int:
        """The number of a call; a new call is added, with its parents. An empty path is the root."""
        missing: list[tuple[str, int]] = []
        call = path, index
        while call not in self._numbers:
            if len(missing) >= MAX_DEPTH:
                return 0
            missing.append(call)
            call = call[0].rpartition(".")[0], 0
        parent = self._numbers[call]
        for path, index in reversed(missing):
            self._numbers[path, index] = len(self.calls)
            self.calls.append(CellCall(path, classes.get(path, "Module"), index, parent))
            parent = self._numbers[path, index]
        return parent


def _parse_list(text: str) -> list[str]:
    """Parse a list of strings as torch.onnx writes it to metadata; empty for other text."""
    if len(text) > MAX_TEXT_LENGTH:
        return []
    try:
        items = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    return [item for item in items if isinstance(item, str)] if isinstance(items, list) else []


def _strip_repetition(parts: list[str]) -> list[str]:
    """TorchScript's path of a module in a list, without the repetition: `layers/layers.0/proj` is `layers.0.proj`."""
    kept: list[str] = []
    for i, part in enumerate(parts):
        following = parts[i + 1] if i + 1 < len(parts) else ""
        if not following.startswith(f"{part}."):
            kept.append(part)
    return kept
