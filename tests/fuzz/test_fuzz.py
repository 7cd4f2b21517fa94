"""Changed files of all kinds: no crash, no exception that isn't one of ours, no hang over 5 s, no more than 1 GB.

A few in the ordinary suite; `FUZZ_MUTANTS=100000 FUZZ_SEED=7 pytest -m slow tests/fuzz` runs many, and so does
`python -m tests.fuzz --mutants 100000 --seed 7`.
"""

from __future__ import annotations

import os
from random import Random

import pytest

from tests.fuzz.campaign import Failure, fuzz
from tests.fuzz.outputs import require_tame
from tests.fuzz.targets import ALL, TARGETS, choose_target
from tests.fuzz.worker import run

MUTANTS = int(os.environ.get("FUZZ_MUTANTS", "10000"))
SEED = int(os.environ.get("FUZZ_SEED", "0"))


def test_mutants_do_no_harm() -> None:
    seed, numbers = 14273, range(17)  # the first of few that reach all targets
    assert {choose_target(Random(f"{seed}:{number}"), seed, number) for number in numbers} == {*ALL}
    results = list(fuzz(seed, numbers))
    assert [result for result in results if isinstance(result, int)] == list(numbers)
    assert not [str(result) for result in results if isinstance(result, Failure)]


@pytest.mark.slow
def test_many_mutants_do_no_harm() -> None:
    failures = [str(result) for result in fuzz(SEED, range(MUTANTS)) if isinstance(result, Failure)]
    assert not failures, "\n".join(failures)


def test_planted_faults_are_found_and_told_apart() -> None:
    failures = {result.number: result for result in fuzz(5, range(5), "planted") if isinstance(result, Failure)}
    assert [failures[number].what.partition(":")[0] for number in sorted(failures)] == [
        "the process ended with -6", "MemoryError (planted)", "TimeoutError (planted)", "KeyError (planted)",
    ]  # fmt: skip
    assert 2 not in failures, "an error of ours is no failure"
    assert "--seed 5 --only 4" in str(failures[4])
    second_run = run(5, 4, "planted")
    assert second_run is not None
    assert second_run["what"] == "KeyError"


def test_later_targets_leave_the_others_as_they_were() -> None:
    """Seeds that are known keep their meaning: a mutant of an older target is the same as before."""
    names = [choose_target(Random(f"3:{number}"), 3, number) for number in range(400)]
    assert {*ALL} == {*names}
    weights = [weight for _, weight in TARGETS.values()]
    before = [Random(f"3:{number}").choices(list(TARGETS), weights)[0] for number in range(400)]
    assert all(name not in TARGETS or name == old for name, old in zip(names, before, strict=True))


def test_texts_that_act_on_a_terminal_are_found() -> None:
    for text in ("\x1b[2J", "a\rb", "\u202e"):
        with pytest.raises(ValueError, match="acts on the terminal"):
            require_tame(text)
