"""What strangers hand over, as one table: it decides no verdict in silence, and neither writes, runs nor hangs.

A row is an `Attack`; rows of a kind stand in a file of their own, with a sound one beside each faulty one.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.strangers import databases, locks, projects
from tests.strangers.attack import Attack, carry_out

pytestmark = pytest.mark.usefixtures("forgotten_user_files")

ATTACKS = {"projects": projects.ATTACKS, "databases": databases.ATTACKS, "locks": locks.ATTACKS}
ROWS = [
    pytest.param(attack, id=f"{kind}: {attack.name}", marks=[pytest.mark.slow] if attack.slow else [])
    for kind, attacks in ATTACKS.items()
    for attack in attacks
]


@pytest.mark.parametrize("attack", ROWS)
def test_what_strangers_hand_over(attack: Attack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    carry_out(attack, tmp_path, monkeypatch)


@pytest.mark.parametrize(
    "attack",
    [
        Attack("another exit code", ["run", "net.py"], 1),
        Attack("a text that isn't said", ["run", "net.py"], 0, ["Parity fails"]),
        Attack("a text that is said", ["run", "net.py"], 0, lacks=["Parity holds"]),
        Attack("a file that is written", ["run", "net.py", "--json", "mine.json"], 0),
        Attack("a file outside", ["run", "net.py", "--json", "../victim"], 0, writes=["work/*"]),
    ],
    ids=lambda attack: attack.name,
)
def test_the_table_sees_a_planted_fault(attack: Attack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError):
        carry_out(attack, tmp_path, monkeypatch)
