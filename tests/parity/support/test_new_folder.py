"""A folder is written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from cellbridge.parity.support.files import new_folder
from cellbridge.runtime.errors import UsageError


def fill(path: Path) -> None:
    with new_folder(path) as folder:
        (folder / "inner").mkdir()
        (folder / "inner" / "file").write_text("text")
        assert not path.exists() or not any(path.iterdir())


def test_it_appears_when_it_is_complete(tmp_path: Path) -> None:
    fill(tmp_path / "new")
    assert [file.name for file in tmp_path.iterdir()] == ["new"]
    assert (tmp_path / "new" / "inner" / "file").read_text() == "text"


def test_an_empty_folder_is_filled_and_a_link_kept(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    fill(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "empty" / "inner" / "file").exists()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_nothing_is_left_of_a_failure(error: type[BaseException], tmp_path: Path) -> None:
    def fail() -> None:
        with new_folder(tmp_path / "new") as folder:
            (folder / "file").write_text("text")
            raise error

    with pytest.raises(error):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_nothing_in_it_is_not_made(tmp_path: Path) -> None:
    with new_folder(tmp_path / "new"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_what_comes_in_between_is_kept(tmp_path: Path) -> None:
    def fill_both() -> None:
        with new_folder(tmp_path / "new") as folder:
            (folder / "file").write_text("text")
            (tmp_path / "new").mkdir()
            (tmp_path / "new" / "mine").write_text("mine")

    with pytest.raises(UsageError, match="can't write"):
        fill_both()
    assert (tmp_path / "new" / "mine").read_text() == "mine"
    assert [file.name for file in tmp_path.iterdir()] == ["new"]
