"""Settings for all tests."""

from __future__ import annotations

from hypothesis import settings

# Busy machines are slow at times; a test fails for what it finds, not for when it finds it.
settings.register_profile("spherepair", deadline=None)
settings.load_profile("spherepair")
