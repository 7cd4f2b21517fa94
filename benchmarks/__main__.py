"""Measure against peers and write `benchmarks/RESULTS.md`.

    python -m benchmarks            all of it, some minutes; nothing else should run on the machine
    python -m benchmarks --quick    one repetition on a small model, printed and not kept: does it work?
    python -m benchmarks --conversion   that topic alone, in place of its section in RESULTS.md

This process imports neither torch nor NumPy: the peak memory that the kernel reports for a child includes that of the
process which started it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from . import conversion, eager_training, interpreter, tables, whole_process
from .tables import Row

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "RESULTS.md"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure against peers.")
    parser.add_argument("--quick", action="store_true", help="one repetition on a small model, printed and not kept")
    parser.add_argument("--conversion", action="store_true", help="measure conversion alone, and keep the other topics")
    given = parser.parse_args()
    quick: bool = given.quick
    if given.conversion:
        rows = conversion.measure(ROOT, (*conversion.FIXTURES, *conversion.LARGE, conversion.BILLION), repetitions=3)
        topic = tables.section(conversion.TITLE, conversion.EXPLANATION, rows)
        RESULTS.write_text(tables.with_section(RESULTS.read_text(encoding="utf-8"), topic), encoding="utf-8")
        print(topic)
        return
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
    converted = models if quick else (*conversion.FIXTURES, *conversion.LARGE, conversion.BILLION)
    conversions = conversion.measure(ROOT, tuple(converted), repetitions=1 if quick else 3)
    text = tables.document(
        machine,
        {
            whole_process.TITLE: (whole_process.EXPLANATION, whole),
            interpreter.TITLE: (interpreter.EXPLANATION, inside),
            eager_training.TITLE: (eager_training.EXPLANATION, eager),
            conversion.TITLE: (conversion.EXPLANATION, conversions),
        },
    )
    print(text)
    if not quick:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
