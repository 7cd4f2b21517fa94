"""Seeds give the numbers that `torch.manual_seed` gives, on the devices that there are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from cellbridge.converter import seed


@pytest.fixture(autouse=True)
def _ask_again() -> Iterator[None]:
    seed._has_accelerator.cache_clear()
    yield
    seed._has_accelerator.cache_clear()


@pytest.mark.parametrize("accelerator", [False, True])
def test_numbers_are_those_of_torch(accelerator: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: accelerator)
    torch.manual_seed(7)
    expected = torch.rand(3)
    seed.manual_seed(7)
    assert torch.equal(torch.rand(3), expected)


def test_all_devices_are_seeded_where_there_is_an_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch, "manual_seed", seeds.append)
    seed.manual_seed(3)
    assert seeds == [3]


@pytest.mark.skipif(torch.accelerator.is_available(), reason="torch keeps seeds for accelerators that aren't in use")
def test_no_seeds_are_kept_for_later() -> None:
    before = len(torch.cuda._queued_calls)
    seed.manual_seed(3)
    assert len(torch.cuda._queued_calls) == before
