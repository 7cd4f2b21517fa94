"""The benchmarks run, and their tables say what was measured."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import tables

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_quick_run_measures_every_topic_and_keeps_nothing() -> None:
    for package in ("onnxscript", "timm"):
        pytest.importorskip(package, reason="a peer, or its models, need it: pip install 'cellbridge[benchmark]'")
    results = ROOT / "benchmarks" / "RESULTS.md"
    before = results.read_text(encoding="utf-8") if results.exists() else None
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--quick"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rows = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| lstm_classifier")]
    assert [row[1] for row in rows] == [
        "wall time", "peak memory", "forward", "forward and backward", "nodes", "conversion time", "conversion memory",
    ]  # fmt: skip
    assert all(float(row[4]) > 0 for row in rows)
    after = results.read_text(encoding="utf-8") if results.exists() else None
    assert after == before


def test_a_section_takes_the_place_of_the_one_before() -> None:
    text = tables.document(tables.document("", "## One\n\nold"), "## Two\n\nkept")
    replaced = tables.document(text, "## One\n\nnew")
    assert replaced == f"{tables.HEAD}\n\n## One\n\nnew\n\n## Two\n\nkept\n"
    assert tables.document(replaced, "## Three\n\nmore").endswith("\n\n## Two\n\nkept\n\n## Three\n\nmore\n")
