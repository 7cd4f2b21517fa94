"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("at any speed", deadline=None)  # the machine may be busy
settings.load_profile("at any speed")
