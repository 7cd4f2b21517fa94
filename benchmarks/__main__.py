"""Measure against peers and write `benchmarks/RESULTS.md`.

    python -m benchmarks            all of it, some minutes; nothing else should run on the machine
    python -m benchmarks --quick    one repetition on a small model, printed and not kept: does it work?

This process imports neither torch nor NumPy: the peak memory that the kernel reports for a child includes that of the
process which started it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from . import eager_training, interpreter, tables, whole_process
from .tables import Row

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "RESULTS.md"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure against peers.")
    parser.add_argument("--quick", action="store_true", help="one repetition on a small model, printed and not kept")
    quick = parser.parse_args().quick
    models = ["lstm_classifier"] if quick else ["resnet18", "minilm"]
    machine = tables.machine()  # before the measurements, for its load average
    whole: list[Row] = []
    inside: list[Row] = []
    for model in models:
        print(f"measuring {model}: whole process", flush=True)
        whole += whole_process.measure(ROOT, model, repetitions=1 if quick else 7)
    for model in models:
        print(f"measuring {model}: interpreter", flush=True)
        inside += interpreter.measure(ROOT, model, repetitions=1 if quick else 30)
    print("measuring eager training", flush=True)
    eager = eager_training.measure(ROOT, repetitions=1 if quick else 50)
    text = tables.document(
        machine,
        {
            whole_process.TITLE: (whole_process.EXPLANATION, whole),
            interpreter.TITLE: (interpreter.EXPLANATION, inside),
            eager_training.TITLE: (eager_training.EXPLANATION, eager),
        },
    )
    print(text)
    if not quick:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
