"""Wrong uses end with the exit code and the message of the table."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from cellbridge.parity.cli import main
from tests.newcomer.uses import WrongUse, first_line, write_files, wrong_uses


@pytest.mark.every(20)
@pytest.mark.parametrize("use", wrong_uses(), ids=str)
def test_a_wrong_use_ends_as_the_table_says(use: WrongUse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    done = CliRunner().invoke(main, use.words, prog_name="parity")
    assert done.exit_code == use.code, done.output
    assert "Traceback" not in done.output
    assert first_line(done.stderr) or first_line(done.stdout)
    assert (first_line(done.stderr) or first_line(done.stdout)).startswith(use.message)


def test_the_table_has_messages_that_begin_alike() -> None:
    for use in wrong_uses():
        assert use.message.startswith(("error: ", "? ", "Usage: ")), use
        assert use.code in (2, 3), use
