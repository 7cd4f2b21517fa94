"""Recording and judging a model of a billion parameters, against running it.

    python -m benchmarks.recordings SIDE MODEL FOLDER

runs one side: `plain` the model forward and backward, `record` the same recorded in FOLDER, `judge` that recording by
itself, `write` the bytes of its files to other files.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from .tables import Row
from .whole_process import usage

TITLE = "Recordings"
EXPLANATION = (
    "A decoder of a billion parameters, 32 tokens, run forward and backward in float32, alone and with everything that "
    "crosses the boundaries of its Cells recorded (`parity.record(..., float64=False)`: values, gradients, parameters "
    "and their gradients); and the recording judged by itself. Each in its own process. Of the time for recording, "
    "that for writing as many bytes to the same disk is subtracted; its peer is 1.5 times the run alone. *Memory* is "
    "the peak above that of the run alone, and for judging that of the whole process."
)
MODEL = "decoder_1b"
MAX_RECORDING, MAX_ABOVE, MAX_JUDGING = 1.5, 1024.0, 2048.0  # times, MiB, MiB


def measure(root: Path, model: str, turns: int) -> list[Row]:
    """Return the rows."""
    plain, recorded, judged, writing = [], [], [], []
    for _ in range(turns):
        with tempfile.TemporaryDirectory() as folder:
            sides = {name: [sys.executable, "-m", "benchmarks.recordings", name, model, folder] for name in SIDES}
            plain.append(usage(sides["plain"], root))
            recorded.append(usage(sides["record"], root))
            judged.append(usage(sides["judge"], root))
            writing.append(usage(sides["write"], root))
    seconds = [a.seconds - b.seconds for a, b in zip(recorded, writing, strict=True)]
    above = [a.memory - b.memory for a, b in zip(recorded, plain, strict=True)]
    print(f"writing alone takes {statistics.median(turn.seconds for turn in writing):.1f} s", flush=True)
    return [
        Row(model, "recording time", "s", seconds, [MAX_RECORDING * turn.seconds for turn in plain], 1.0),
        Row(model, "recording, memory above", "MiB", above, [MAX_ABOVE] * turns, 1.0),
        Row(model, "judging, memory", "MiB", [turn.memory for turn in judged], [MAX_JUDGING] * turns, 1.0),
    ]


# ---- in the process of a side ----


def _loss(outputs: Any) -> Any:
    return outputs[0].square().mean()


def _plain(model: str, folder: Path) -> None:
    from .conversion import build

    module, args, kwargs = build(model)
    _loss(module(*args, **kwargs)).backward()


def _record(model: str, folder: Path) -> None:
    from cellbridge import parity

    from .conversion import build

    module, args, kwargs = build(model)
    parity.record(module, args, folder / "ref.rec", kwargs, loss=_loss, float64=False)


def _judge(model: str, folder: Path) -> None:
    from cellbridge import parity

    assert parity.judge(folder / "ref.rec", folder / "ref.rec").ok


def _write(model: str, folder: Path) -> None:
    shutil.copytree(folder / "ref.rec", folder / "copy")


SIDES = {"plain": _plain, "record": _record, "judge": _judge, "write": _write}

if __name__ == "__main__":
    SIDES[sys.argv[1]](sys.argv[2], Path(sys.argv[3]))
