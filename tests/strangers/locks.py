"""A stranger's parity.lock, and folders in which links were put."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from click.testing import CliRunner

from cellbridge.parity.cli import main
from cellbridge.parity.jobs.sweeping.sweep import page_of
from tests.strangers.attack import NETWORK, WORK, Attack

OUTSIDE = "open(__file__ + '.ran', 'w').close()" + NETWORK
CHECK = ["check", "--lock", "work.lock"]


def lock(names: str) -> Callable[[Path], None]:
    """Return what makes a lock of net.py that names another model instead."""

    def make(folder: Path) -> None:
        written = folder / WORK / "work.lock"
        done = CliRunner().invoke(main, ["lock", str(folder / WORK / "net.py"), "-o", str(written)])
        assert done.exit_code == 0, done.output
        written.write_text(written.read_text().replace(str(folder / WORK / "net.py"), names))

    return make


def _link(folder: Path) -> None:
    (folder / WORK / "link.py").symlink_to("../outside.py")
    lock("link.py")(folder)


def planted(name: str) -> Callable[[Path], None]:
    """Return what makes a folder for pages in which a link leads to a file of the user."""

    def make(folder: Path) -> None:
        (folder / WORK / "pages").mkdir()
        (folder / WORK / "pages" / name).symlink_to("../../victim")

    return make


TWO = {"work/other.py": NETWORK}
PAGES = ["work/pages/*"]
ATTACKS = [
    Attack("a lock of the project's file", CHECK, 0, ["Parity holds"], make=lock("net.py")),
    Attack("a lock of a file outside", CHECK, 2, ["work.lock names ../outside.py", "name it too"],
           make=lock("../outside.py"), files={"outside.py": OUTSIDE}),
    Attack("a lock of a file outside, by a factory", CHECK, 2, ["a file of this project"],
           make=lock("../outside.py:model"), files={"outside.py": OUTSIDE}),
    Attack("a lock of a file outside, by a case", CHECK, 2, ["a file of this project"], make=lock("../outside.py[a]"),
           files={"outside.py": OUTSIDE}),
    Attack("a lock of a link that leads outside", CHECK, 2, ["a file of this project"], make=_link,
           files={"outside.py": OUTSIDE}),
    Attack("a lock of an installed package", CHECK, 2, ["a file of this project"], make=lock("antigravity:model")),
    Attack("a lock of a file outside that is named", [*CHECK, "../outside.py"], 0, ["Parity holds"],
           make=lock("../outside.py"), files={"outside.py": NETWORK}),
    Attack("a link for the overview", ["run", "net.py", "other.py", "--html", "pages"], 0, files=TWO,
           make=planted("index.html"), writes=PAGES),
    Attack("a link for a page", ["run", "net.py", "other.py", "--html", "pages"], 0, files=TWO,
           make=planted("net.py.html"), writes=PAGES),
    Attack("a link for the overview of a sweep", ["sweep", "net.py", "--html", "pages"], 0,
           make=planted("index.html"), writes=[*PAGES, "work/sweep.db"], slow=True),
    Attack("a link for a page of a sweep", ["sweep", "net.py", "--html", "pages"], 0,
           make=planted(page_of("net.py")), writes=[*PAGES, "work/sweep.db"]),
    Attack("an empty parity.lock beside the results of a sweep", ["sweep", "net.py", "-o", "parity"], 0,
           files={"work/parity.lock": ""}, writes=["work/parity"], slow=True),
]  # fmt: skip
