from __future__ import annotations

import gc

from click.testing import CliRunner

from cellbridge.parity.cli import main
from cellbridge.parity.support.process import COLLECTION_THRESHOLDS, tuned_process


def test_garbage_is_collected_less_often_within_a_command() -> None:
    before = gc.get_threshold()
    with tuned_process():
        assert gc.get_threshold() == COLLECTION_THRESHOLDS
    assert gc.get_threshold() == before
    CliRunner().invoke(main, ["inspect", "no_such_file.py"])
    assert gc.get_threshold() == before
