"""What holds for all of these tests."""

from __future__ import annotations

from hypothesis import settings

# How long an example takes says something about the machine, which may be busy.
settings.register_profile("jobq", deadline=None)
settings.load_profile("jobq")
