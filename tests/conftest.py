"""Settings for all tests."""

from __future__ import annotations

import os

from hypothesis import settings

# GPU kernels are tested in Triton's interpreter, which has to be asked for before Triton is loaded.
os.environ.setdefault("TRITON_INTERPRET", "1")

# Busy machines are slow at times; a test fails for what it finds, not for when it finds it.
settings.register_profile("spherepair", deadline=None)
settings.load_profile("spherepair")
