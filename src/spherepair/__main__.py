"""``python -m spherepair`` is the same as ``spherepair``."""

from __future__ import annotations

import sys

from spherepair.cli import main

if __name__ == "__main__":
    sys.exit(main())
