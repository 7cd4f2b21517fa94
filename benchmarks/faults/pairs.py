"""What is compared: a reference, a candidate and their inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Pair:
    """Two sides that a tool is given.

    Attributes:
        reference: a torch module, or the path of an ONNX file.
        candidate: a torch module, a Cell, or the path of an ONNX file.
        args: positional inputs.
        train: compare in train mode.
        scripts: for training, the scripts that train the reference and the candidate.
        data: for training, the batches.
        command: what a user runs where the two aren't compared with each other, but one is checked by itself or in
            several forms; it returns a report.
        options: of the kind of pair: `inputs` of files by name, `with_weights` loads the reference's weights into a
            port, `outputs` runs a candidate of another framework in a dtype, `difference` and `rounding` are what
            `proving` uses in place of its own, `shows` computes the difference where a hidden fault shows, `probe` asks
            for further inputs.
        cleanup: called when all tools are done with the pair.
    """

    reference: Any
    candidate: Any
    args: tuple[Any, ...] = ()
    train: bool = False
    scripts: tuple[Callable[..., Any], Callable[..., Any]] | None = None
    data: Sequence[Any] = ()
    command: Callable[[], Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    cleanup: Callable[[], None] = lambda: None
