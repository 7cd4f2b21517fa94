"""What holds for the samples: they load model files, as the tests of parity do."""

from __future__ import annotations

from tests.parity.conftest import _one_thread, _user_files_are_forgotten  # noqa: F401  (fixtures)
